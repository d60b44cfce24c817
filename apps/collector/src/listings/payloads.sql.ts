import type { JoinBuilder } from 'kysely';
import type { Tables } from '../database/tables.ts';

type Joined = { listing: Tables['property_listings']; current: Tables['listing_payloads'] };

/**
 * The join of a listing, as `listing`, with how far its payloads have come, as `current`:
 * `innerJoin('listing_payloads as current', ofListing)`.
 */
export function ofListing(
  join: JoinBuilder<Joined, keyof Joined>,
): JoinBuilder<Joined, keyof Joined> {
  return join
    .onRef('current.source_slug', '=', 'listing.source_slug')
    .onRef('current.external_id', '=', 'listing.external_id');
}
