import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import { type Fence, LeaseLostError } from './job-types.ts';

/**
 * Returns a query that has one row while the claim holds. Put it first into a statement that writes
 * (`with claim as materialized (…)`): it locks the record, so the claim cannot be lost before the write.
 */
export function selectHeldClaim({ rawId, attempt }: Fence): RawBuilder<{ id: number }> {
  return sql`select id from raw_data
    where id = ${rawId} and attempt = ${attempt} and status = 'processing' for share`;
}

/**
 * Returns the same for a write to the job's listing. `is_current` tells whether this job's payload still is the
 * listing's last one; the lock makes a newer payload wait for the end of the statement or transaction.
 */
export function selectHeldListing({ rawId, attempt }: Fence): RawBuilder<{ is_current: boolean }> {
  return sql`select current.raw_id = raw_data.id as is_current
    from raw_data join listing_payloads as current using (source_slug, external_id)
    where raw_data.id = ${rawId} and raw_data.attempt = ${attempt}
      and raw_data.status = 'processing'
    for share`;
}

/**
 * Writes while the claim holds.
 * @param write A statement that reads from `claim`.
 * @throws LeaseLostError where it is lost; then nothing is written.
 */
export async function writeWithClaim(
  db: Kysely<Tables>,
  fence: Fence,
  write: RawBuilder<unknown>,
): Promise<void> {
  const { rows } = await sql<{ held: boolean }>`
    with claim as materialized (${selectHeldClaim(fence)}), written as (${write})
    select exists (select from claim) as held`.execute(db);
  if (rows[0]?.held !== true) throw new LeaseLostError(fence);
}

/**
 * Writes to the job's listing while the claim holds.
 * @param write A statement that reads from `claim` where `claim.is_current`.
 * @returns False where a newer payload made the listing meanwhile; then nothing is written.
 * @throws LeaseLostError
 */
export async function writeToListing(
  db: Kysely<Tables>,
  fence: Fence,
  write: RawBuilder<unknown>,
): Promise<boolean> {
  const { rows } = await sql<{ is_current: boolean }>`
    with claim as materialized (${selectHeldListing(fence)}), written as (${write})
    select is_current from claim`.execute(db);
  if (rows[0] === undefined) throw new LeaseLostError(fence);
  return rows[0].is_current;
}

/**
 * The records whose claims still hold, of rows `job` with `id` and `attempt`. They are locked in the order of their
 * ids: statements that lock in different orders would deadlock.
 */
export const selectHeldClaimsForUpdate: RawBuilder<{ id: number }> = sql`
  select raw_data.id from raw_data join job using (id)
  where raw_data.attempt = job.attempt and raw_data.status = 'processing'
  order by raw_data.id for update of raw_data`;

/*
 * Order within a listing. `offset 0` keeps these looks from becoming joins over all listings, and `id + 0` is the
 * expression of the index `raw_data_unfinished` (migration 0006).
 */

/**
 * Tells whether a payload of the listing is being processed.
 * @param of A row with `source_slug` and `external_id`.
 */
export function hasJobInProgress(of: RawBuilder<unknown>): RawBuilder<boolean> {
  // Not `= 'processing'`: for so few rows the planner would read the whole index of jobs in progress.
  return sql<boolean>`exists (
    select from raw_data as other
    where other.source_slug = ${of}.source_slug and other.external_id = ${of}.external_id
      and other.status in ('pending', 'processing') and other.status > 'pending' offset 0)`;
}

/**
 * Tells whether an earlier payload of the listing is pending.
 * @param of A row of `raw_data`.
 */
export function hasEarlierPendingPayload(of: RawBuilder<unknown>): RawBuilder<boolean> {
  return sql<boolean>`exists (
    select from raw_data as other
    where other.source_slug = ${of}.source_slug and other.external_id = ${of}.external_id
      and other.status = 'pending' and other.id + 0 < ${of}.id offset 0)`;
}

/**
 * Tells whether a payload of the listing is pending or being processed.
 * @param of A row with `source_slug` and `external_id`.
 */
export function hasUnfinishedPayload(of: RawBuilder<unknown>): RawBuilder<boolean> {
  return sql<boolean>`exists (
    select from raw_data as other
    where other.source_slug = ${of}.source_slug and other.external_id = ${of}.external_id
      and other.status in ('pending', 'processing') offset 0)`;
}
