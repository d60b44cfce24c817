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
