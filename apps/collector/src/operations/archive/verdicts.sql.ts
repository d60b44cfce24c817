import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../tables.ts';
import type { AddressState } from './ask.ts';
import type { Claim } from './claims.sql.ts';

/** Notes that an address is not gone, or that nothing can be said: that leaves what was known before. */
export async function noteCheck(
  db: Kysely<Tables>,
  { listingId }: Claim,
  { state, status }: AddressState,
): Promise<void> {
  await db
    .updateTable('listing_checks')
    .set({
      checked_at: sql<Date>`now()`,
      status,
      claimed_until: null,
      ...(state === 'unreachable' ? {} : { gone_since: null, gone_raw_id: null }),
    })
    .where('listing_id', '=', listingId)
    .execute();
}

/**
 * Notes that an address is gone, and archives the listing where it was so `minIntervalSeconds` before and
 * no payload of it has come since. What is known of the address goes with that: should the listing come
 * back, it is looked at afresh. What says which payload came last is locked, so that one on its way is
 * either seen or brings the listing back.
 * @returns Whether it was archived.
 */
export async function noteGone(
  db: Kysely<Tables>,
  { listingId, rawId }: Claim,
  { status, minIntervalSeconds }: { status: number; minIntervalSeconds: number },
): Promise<boolean> {
  const { rows } = await sql<{ is_archived: boolean }>`
    with unseen as materialized (
      select listing.id
      from listing_checks as earlier
      join property_listings as listing on listing.id = earlier.listing_id
      join listing_payloads as current using (source_slug, external_id)
      where earlier.listing_id = ${listingId} and earlier.gone_raw_id = current.raw_id
        and earlier.gone_since <= now() - ${minIntervalSeconds} * interval '1 second'
      for update of current),
    archived as (
      update property_listings as listing set archived_at = now(), updated_at = now()
      from unseen
      where listing.id = unseen.id and listing.archived_at is null
      returning listing.id),
    removed as (
      delete from listing_checks using archived where listing_id = archived.id),
    noted as (
      update listing_checks set
        checked_at = now(),
        status = ${status},
        gone_since = case when gone_raw_id = ${rawId} then gone_since else now() end,
        gone_raw_id = ${rawId},
        claimed_until = null
      where listing_id = ${listingId} and not exists (select from archived))
    select exists (select from archived) as is_archived`.execute(db);
  return rows[0]?.is_archived ?? false;
}
