import { type RawBuilder, sql } from 'kysely';

/**
 * Whether a payload of the listing is being processed. `offset 0` keeps the look at one listing from becoming
 * a join over all of them.
 *
 * It is not written `status = 'processing'`, because for so few rows the planner would rather read all of the
 * index of leases than look the listing up. That index is small to the planner's knowledge, but holds a dead
 * entry for each claim since the last vacuum.
 * @param of A row with `source_slug` and `external_id`.
 */
export function isProcessed(of: RawBuilder<unknown>): RawBuilder<boolean> {
  return sql<boolean>`exists (
    select from raw_data as other
    where other.source_slug = ${of}.source_slug and other.external_id = ${of}.external_id
      and other.status in ('pending', 'processing') and other.status > 'pending' offset 0)`;
}

/**
 * Whether an earlier payload of the listing is pending.
 * @param of A row of `raw_data`.
 */
export function isBehind(of: RawBuilder<unknown>): RawBuilder<boolean> {
  return sql<boolean>`exists (
    select from raw_data as other
    where other.source_slug = ${of}.source_slug and other.external_id = ${of}.external_id
      and other.status = 'pending' and other.id + 0 < ${of}.id offset 0)`;
}

/**
 * Whether a payload of the listing waits or is being processed: what it says will soon be what counts.
 * @param of A row with `source_slug` and `external_id`.
 */
export function isAwaited(of: RawBuilder<unknown>): RawBuilder<boolean> {
  return sql<boolean>`exists (
    select from raw_data as other
    where other.source_slug = ${of}.source_slug and other.external_id = ${of}.external_id
      and other.status in ('pending', 'processing') offset 0)`;
}
