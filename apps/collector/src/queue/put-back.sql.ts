import { type Kysely, sql } from 'kysely';
import type { RawStatus, Tables } from '../tables.ts';
import type { ListingKey } from './job.ts';
import { isAwaited } from './processed.sql.ts';
import { release } from './release.sql.ts';
import { lacksItsPictures, putBack } from './transitions.sql.ts';

export type RetryStatus = 'failed' | 'invalid';

/** A payload that is back, and whether it waits for another one of its listing. */
type PutBack = ListingKey & { waits: boolean };

/** Puts a payload back in the queue, and gives whether there was one to put back. */
export async function putBackOne(db: Kysely<Tables>, rawId: number): Promise<boolean> {
  const { rows } =
    await sql<PutBack>`update raw_data set ${putBack}, waits = ${isAwaited(sql`raw_data`)}
    where id = ${rawId} and status in ('failed', 'invalid') and not ${lacksItsPictures}
    returning source_slug as "sourceSlug", external_id as "externalId", waits`.execute(db);
  await releaseWaiting(db, rows);
  return rows.length === 1;
}

/** What decides on a payload's retry: its status, and whether its pictures are gone. Undefined where there is none. */
export function findRetryState(
  db: Kysely<Tables>,
  rawId: number,
): Promise<{ status: RawStatus; lacksPictures: boolean } | undefined> {
  return db
    .selectFrom('raw_data')
    .select(['status', lacksItsPictures.as('lacksPictures')])
    .where('id', '=', rawId)
    .executeTakeFirst();
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
  const { rows } = await sql<PutBack>`
    with chosen as materialized (
      select id, source_slug, external_id from raw_data
      where status = ${status} and not ${lacksItsPictures} and updated_at <= ${endedBefore}::timestamptz
        and ${source === undefined ? sql`true` : sql`source_slug = ${source}`}
      order by updated_at limit ${limit} for update skip locked
    ),
    judged as materialized (
      select id,
        row_number() over (partition by source_slug, external_id order by id) > 1
          or ${isAwaited(sql`chosen`)} as waits
      from chosen
    )
    update raw_data set ${putBack}, waits = judged.waits
    from judged where raw_data.id = judged.id
    returning source_slug as "sourceSlug", external_id as "externalId", raw_data.waits`.execute(db);
  await releaseWaiting(db, rows);
  return rows.length;
}

/** What a payload would wait for may have ended before it was back (see release.sql.ts). */
async function releaseWaiting(db: Kysely<Tables>, rows: readonly PutBack[]): Promise<void> {
  await release(
    db,
    rows.filter(({ waits }) => waits),
  );
}
