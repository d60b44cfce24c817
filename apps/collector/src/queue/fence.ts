import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import { type Fence, LeaseLostError } from './job-types.ts';

/**
 * Returns a query with one row if the claim is still held. It locks the record, so use it as the first CTE of a
 * write (`with claim as materialized (…)`).
 */
export function selectHeldClaim({ rawId, attempt }: Fence): RawBuilder<{ id: number }> {
  return sql`select id from raw_data
    where id = ${rawId} and attempt = ${attempt} and status = 'processing' for share`;
}

/**
 * Returns a query like `selectHeldClaim` for writes to the listing. `is_current` is true if no newer payload
 * exists. Its lock blocks newer payloads until the transaction ends.
 */
export function selectHeldListing({ rawId, attempt }: Fence): RawBuilder<{ is_current: boolean }> {
  return sql`select current.raw_id = raw_data.id as is_current
    from raw_data join listing_payloads as current using (source_slug, external_id)
    where raw_data.id = ${rawId} and raw_data.attempt = ${attempt}
      and raw_data.status = 'processing'
    for share`;
}

/**
 * Executes a write if the claim is still held.
 * @param write A statement that reads from `claim`.
 * @throws LeaseLostError if the claim is lost. Then nothing is written.
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
 * Executes a write to the job's listing if the claim is still held.
 * @param write A statement that reads from `claim` where `claim.is_current`.
 * @returns False if a newer payload has updated the listing. Then nothing is written.
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
 * Selects the records of the `job` rows whose claims are still held. Locks them in ID order to avoid deadlocks.
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
 * Returns whether a payload of the listing is being processed.
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
 * Returns whether an earlier payload of the listing is pending.
 * @param of A row of `raw_data`.
 */
export function hasEarlierPendingPayload(of: RawBuilder<unknown>): RawBuilder<boolean> {
  return sql<boolean>`exists (
    select from raw_data as other
    where other.source_slug = ${of}.source_slug and other.external_id = ${of}.external_id
      and other.status = 'pending' and other.id + 0 < ${of}.id offset 0)`;
}

/**
 * Returns whether a payload of the listing is pending or being processed.
 * @param of A row with `source_slug` and `external_id`.
 */
export function hasUnfinishedPayload(of: RawBuilder<unknown>): RawBuilder<boolean> {
  return sql<boolean>`exists (
    select from raw_data as other
    where other.source_slug = ${of}.source_slug and other.external_id = ${of}.external_id
      and other.status in ('pending', 'processing') offset 0)`;
}
