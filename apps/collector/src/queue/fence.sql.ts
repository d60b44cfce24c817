import { type RawBuilder, sql } from 'kysely';
import type { Fence } from './job.ts';

/**
 * A query with one row while the claim holds, and none once it is lost; put it first into a statement
 * that writes (`with claim as materialized (…)`). It locks the record until the statement ends, so
 * that the claim cannot be lost between this look and the write.
 */
export function heldClaim({ rawId, attempt }: Fence): RawBuilder<{ id: number }> {
  return sql`select id from raw_data
    where id = ${rawId} and attempt = ${attempt} and status = 'processing' for share`;
}

/**
 * The same for a write that belongs to the job's listing: its row also says whether the listing is still
 * what this job made of it (`is_current`). Two payloads of a listing can be at work together, because ids
 * come in another order than commits, and the older one must not overwrite what the newer one wrote.
 * It locks that too, so that the newer one waits until the statement, or the transaction, ends.
 */
export function heldListing({ rawId, attempt }: Fence): RawBuilder<{ is_current: boolean }> {
  return sql`select current.raw_id = raw_data.id as is_current
    from raw_data join listing_payloads as current using (source_slug, external_id)
    where raw_data.id = ${rawId} and raw_data.attempt = ${attempt}
      and raw_data.status = 'processing'
    for share`;
}

/**
 * The records of those jobs, rows of `job` with `id` and `attempt`, whose claims still hold. They are
 * locked in the order of their ids, by whoever writes several: two statements that met them in another
 * order would wait for one another.
 */
export const lockHeld: RawBuilder<{ id: number }> = sql`
  select raw_data.id from raw_data join job using (id)
  where raw_data.attempt = job.attempt and raw_data.status = 'processing'
  order by raw_data.id for update of raw_data`;
