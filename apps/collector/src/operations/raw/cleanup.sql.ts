import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../database/tables.ts';

/** How far the removal has come: the last payload that it looked at. */
export type Progress = { at: string; id: number };

/** The time before which payloads are old, as the database writes it. */
export async function readCutoff(db: Kysely<Tables>, olderThanDays: number): Promise<string> {
  const { rows } = await sql<{ cutoff: string }>`
    select (now() - ${olderThanDays} * interval '1 day')::text as cutoff`.execute(db);
  return rows[0]?.cutoff ?? '';
}

/**
 * Removes old completed payloads among the next `limit`, the oldest first. One whose idempotency key still
 * counts stays, and one that somebody is about to process again is passed by.
 * @param cutoff As `readCutoff` gives it.
 * @returns How many, and where to go on; undefined where there is nothing more.
 */
export async function removeSome(
  db: Kysely<Tables>,
  options: { cutoff: string; after: Progress | undefined; limit: number },
): Promise<{ deleted: number; progress: Progress | undefined }> {
  const { cutoff, after, limit } = options;
  const isNext =
    after === undefined
      ? sql`true`
      : sql`(updated_at, id) > (${after.at}::timestamptz, ${after.id}::bigint)`;
  const { rows } = await sql<{ deleted: number; examined: number } & Progress>`
    with examined as materialized (
      select id, updated_at from raw_data
      where status = 'completed' and updated_at < ${cutoff}::timestamptz and ${isNext}
      order by updated_at, id
      limit ${limit}),
    old as materialized (
      select raw.id from raw_data as raw join examined using (id)
      where raw.status = 'completed'
        and (idempotency_key is null or created_at < now() - interval '24 hours')
      for update of raw skip locked),
    deleted as (
      delete from raw_data using old where raw_data.id = old.id returning raw_data.id)
    select (select count(*)::integer from deleted) as deleted,
      (select count(*)::integer from examined) as examined,
      updated_at::text as at, id
    from examined
    order by updated_at desc, id desc
    limit 1`.execute(db);
  const row = rows[0];
  if (row === undefined) return { deleted: 0, progress: undefined };
  const { deleted, examined, at, id } = row;
  return { deleted, progress: examined < limit ? undefined : { at, id } };
}
