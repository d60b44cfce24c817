import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../tables.ts';

/** The time before which payloads are old, as the database writes it. */
export async function readCutoff(db: Kysely<Tables>, olderThanDays: number): Promise<string> {
  const { rows } = await sql<{ cutoff: string }>`
    select (now() - ${olderThanDays} * interval '1 day')::text as cutoff`.execute(db);
  return rows[0]?.cutoff ?? '';
}

/**
 * Removes old completed payloads among the next `limit` of all, in the order in which they came: their ids are
 * that order, but for transactions that overlap. One whose idempotency key still counts stays, and one that
 * somebody is about to process again is passed by.
 * @param cutoff As `readCutoff` gives it.
 * @param options.after Where the last call ended; 0 at first.
 * @returns How many, and where to go on; undefined where none that follow are old.
 */
export async function removeSome(
  db: Kysely<Tables>,
  options: { cutoff: string; after: number; limit: number },
): Promise<{ deleted: number; next: number | undefined }> {
  const { cutoff, after, limit } = options;
  const { rows } = await sql<{ deleted: number; examined: number; old: number; last: number }>`
    with examined as materialized (
      select id, created_at < ${cutoff}::timestamptz as is_old
      from raw_data where id > ${after} order by id limit ${limit}),
    removable as materialized (
      select raw.id from raw_data as raw join examined using (id)
      where examined.is_old and raw.status = 'completed'
        and (idempotency_key is null or created_at < now() - interval '24 hours')
      for update of raw skip locked),
    deleted as (
      delete from raw_data using removable where raw_data.id = removable.id returning raw_data.id)
    select (select count(*)::integer from deleted) as deleted, count(*)::integer as examined,
      (count(*) filter (where is_old))::integer as old, coalesce(max(id), 0) as last
    from examined`.execute(db);
  const { deleted, examined, old, last } = rows[0] ?? { deleted: 0, examined: 0, old: 0, last: 0 };
  return { deleted, next: examined < limit || old === 0 ? undefined : last };
}
