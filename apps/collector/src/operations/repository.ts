import { type Kysely, sql } from 'kysely';
import type { RawStatus, Tables } from '../database.ts';

export type RetryStatus = 'failed' | 'invalid';

/** A payload that waits as if it had just come: with all its attempts, and nothing of the last end. */
const PUT_BACK = sql`status = 'pending', attempts = 0, error = null, stages = '[]', updated_at = now()`;

/** Puts a payload back in the queue, and gives whether there was one to put back. */
export async function putBackOne(db: Kysely<Tables>, rawId: number): Promise<boolean> {
  const { numAffectedRows } = await sql`update raw_data set ${PUT_BACK}
    where id = ${rawId} and status in ('failed', 'invalid')`.execute(db);
  return numAffectedRows === 1n;
}

/** A payload's status; undefined where there is no such payload. */
export async function findStatus(
  db: Kysely<Tables>,
  rawId: number,
): Promise<RawStatus | undefined> {
  const raw = await db
    .selectFrom('raw_data')
    .select('status')
    .where('id', '=', rawId)
    .executeTakeFirst();
  return raw?.status;
}

/** The database's time, in microseconds, as it writes it. */
export async function readTime(db: Kysely<Tables>): Promise<string> {
  const { rows } = await sql<{ now: string }>`select now()::text as now`.execute(db);
  return rows[0]?.now ?? '';
}

/**
 * Puts up to `limit` payloads of a status back in the queue, those that ended first. One that another
 * retry holds is left to that one.
 * @param endedBefore As `readTime` gives it.
 * @returns How many.
 */
export async function putBackSome(
  db: Kysely<Tables>,
  options: { status: RetryStatus; source: string | undefined; endedBefore: string; limit: number },
): Promise<number> {
  const { status, source, endedBefore, limit } = options;
  // "materialized": the planner might else look for the rows more than once, and find more.
  const { numAffectedRows = 0n } = await sql`
    with chosen as materialized (
      select id from raw_data
      where status = ${status} and updated_at <= ${endedBefore}::timestamptz
        and ${source === undefined ? sql`true` : sql`source_slug = ${source}`}
      order by updated_at limit ${limit} for update skip locked
    )
    update raw_data set ${PUT_BACK} from chosen where raw_data.id = chosen.id`.execute(db);
  return Number(numAffectedRows);
}
