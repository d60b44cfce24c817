import { LeaseLostError, prepared } from '@oselya/db';
import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import type { FencingToken } from './job-types.ts';

/**
 * Returns a query with one row if the claim is still held. The query locks the record. Use the query as the first CTE
 * of a write: `with claim as materialized (…)`.
 */
export function selectHeldClaim({ rawId, attempt }: FencingToken): RawBuilder<{ id: number }> {
  return sql`select id from raw_data
    where id = ${rawId} and attempt = ${attempt} and status = 'processing' for share`;
}

/**
 * Returns a query with one row if the claim is still held. `is_current` is true if no newer payload has updated the
 * listing. The lock blocks newer payloads until the transaction ends.
 */
export function selectHeldClaimWithListing(
  fence: FencingToken,
): RawBuilder<{ is_current: boolean }> {
  return sql`select current.raw_id = raw_data.id as is_current
    from raw_data join listing_payloads as current using (source_slug, external_id)
    where raw_data.id = ${fence.rawId} and raw_data.attempt = ${fence.attempt}
      and raw_data.status = 'processing'
    for share`;
}

/**
 * Executes a write if the claim is still held.
 * @param statement Write that reads from `claim`. Its text is constant, because the write is a prepared statement.
 * @throws LeaseLostError if the claim is lost; nothing is written in that case.
 */
export async function writeWithClaim(
  db: Kysely<Tables>,
  fence: FencingToken,
  statement: RawBuilder<unknown>,
): Promise<void> {
  const { rows } = await sql<{ id: number }>`${prepared}
    with claim as materialized (${selectHeldClaim(fence)}), written as (${statement})
    select id from claim`.execute(db);
  if (rows.length === 0) throw new LeaseLostError();
}

/**
 * Executes a write to the job's listing if the claim is still held.
 * @param statement Write that reads from `claim` where `claim.is_current`. Its text is constant, as above.
 * @returns False if a newer payload has updated the listing; nothing is written in that case.
 * @throws LeaseLostError
 */
export async function writeToListing(
  db: Kysely<Tables>,
  fence: FencingToken,
  statement: RawBuilder<unknown>,
): Promise<boolean> {
  const { rows } = await sql<{ is_current: boolean }>`${prepared}
    with claim as materialized (${selectHeldClaimWithListing(fence)}), written as (${statement})
    select is_current from claim`.execute(db);
  if (rows[0] === undefined) throw new LeaseLostError();
  return rows[0].is_current;
}

/**
 * Returns the condition that a payload of the row's listing, named `other`, matches `condition`. `offset 0` prevents a
 * join over all listings.
 * @param row Row with `source_slug` and `external_id`.
 */
function hasOtherPayload(row: RawBuilder<unknown>, condition: RawBuilder<unknown>) {
  return sql<boolean>`exists (
    select from raw_data as other
    where other.source_slug = ${row}.source_slug and other.external_id = ${row}.external_id
      and ${condition} offset 0)`;
}

/** Predicate of the index `raw_data_unfinished`. */
const isUnfinished = sql`other.status in ('pending', 'processing')`;

/** Returns the condition that a payload of the listing is being processed. */
export function hasJobInProgress(row: RawBuilder<unknown>): RawBuilder<boolean> {
  // For `= 'processing'` the planner would read the whole index of jobs in progress.
  return hasOtherPayload(row, sql`${isUnfinished} and other.status > 'pending'`);
}

/**
 * Returns the condition that an earlier payload of the listing is pending.
 * @param row Row of `raw_data`.
 */
export function hasEarlierPendingPayload(row: RawBuilder<unknown>): RawBuilder<boolean> {
  // The index is on `id + 0` (migration 0006).
  return hasOtherPayload(row, sql`other.status = 'pending' and other.id + 0 < ${row}.id`);
}

/** Returns the condition that a payload of the listing is pending or being processed. */
export function hasUnfinishedPayload(row: RawBuilder<unknown>): RawBuilder<boolean> {
  return hasOtherPayload(row, isUnfinished);
}
