import { type Kysely, sql } from 'kysely';
import type { RawStatus, Tables } from '../tables.ts';
import { release } from './claim.ts';
import { isAwaited } from './fence.ts';
import type { ListingKey } from './job.ts';
import { lacksItsImages, putBack } from './transitions.ts';

export type RetryStatus = 'failed' | 'invalid';

/** Puts a payload that ended badly back in the queue. Resolves to whether there was one. */
export async function putBackOne(db: Kysely<Tables>, rawId: number): Promise<boolean> {
  const { rows } = await sql<ListingKey>`
    update raw_data set ${putBack}, waits = ${isAwaited(sql`raw_data`)}
    where id = ${rawId} and status in ('failed', 'invalid') and not ${lacksItsImages}
    returning source_slug as "sourceSlug", external_id as "externalId"`.execute(db);
  await release(db, rows);
  return rows.length === 1;
}

/** Returns what decides on a payload's retry, or undefined where there is no such payload. */
export function findRetryState(
  db: Kysely<Tables>,
  rawId: number,
): Promise<{ status: RawStatus; lacksImages: boolean } | undefined> {
  return db
    .selectFrom('raw_data')
    .select(['status', lacksItsImages.as('lacksImages')])
    .where('id', '=', rawId)
    .executeTakeFirst();
}

/** Returns the database's time in microseconds, as it writes it. */
export async function readTime(db: Kysely<Tables>): Promise<string> {
  const { rows } = await sql<{ now: string }>`select now()::text as now`.execute(db);
  return rows[0]?.now ?? '';
}

/**
 * Puts up to `limit` payloads of a status back in the queue, those that ended first; it passes those that another
 * retry holds.
 * @param options.endedBefore As `readTime` gives it.
 * @returns How many.
 */
export async function putBackSome(
  db: Kysely<Tables>,
  options: { status: RetryStatus; source: string | undefined; endedBefore: string; limit: number },
): Promise<number> {
  const { status, source, endedBefore, limit } = options;
  const { rows } = await sql<ListingKey>`
    with chosen as materialized (
      select id, source_slug, external_id from raw_data
      where status = ${status} and not ${lacksItsImages} and updated_at <= ${endedBefore}::timestamptz
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
    returning source_slug as "sourceSlug", external_id as "externalId"`.execute(db);
  // The payload that one of these waits for may have ended before it was back.
  await release(db, rows);
  return rows.length;
}
