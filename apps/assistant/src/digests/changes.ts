import type { ChangesPage, Listing } from '../collector/client.ts';

/** Why a listing may be worth telling of: it is new, or costs less than it did. */
export type Candidate =
  | { kind: 'new' }
  | { kind: 'cheaper'; oldPrice: number; currency: string | null };

/** What a digest tells of a listing. */
export type ListingFacts = Pick<
  Listing,
  'title' | 'price' | 'currency' | 'city' | 'district' | 'rooms' | 'area_total' | 'url'
>;

/** A listing that searches of one kind have found. */
export type Hit = {
  listingId: number;
  kind: Candidate['kind'];
  /** Null where it is new. */
  oldPrice: number | null;
  listing: ListingFacts;
};

/**
 * The listings of a page of changes that searches are asked about: those that are new or back, and those that
 * became cheaper. Of one that is both it is told that it is new; of one that became cheaper several times, from where.
 */
export function toCandidates(changes: ChangesPage['items']): Map<number, Candidate> {
  const candidates = new Map<number, Candidate>();
  for (const change of changes) {
    const id = change.listing_id;
    if (change.kind !== 'price_changed') {
      candidates.set(id, { kind: 'new' });
      continue;
    }
    const { price_from: from, price_to: to, currency_from, currency_to } = change;
    const isCheaper = from !== null && to !== null && to < from && currency_from === currency_to;
    if (isCheaper && !candidates.has(id)) {
      candidates.set(id, { kind: 'cheaper', oldPrice: from, currency: currency_to });
    }
  }
  return candidates;
}

/**
 * What a search has found of a candidate that matches it.
 * @param listing As it is by now.
 * @returns Nothing for one that became cheaper, and is not any more.
 */
export function toHit(listing: Listing, candidate: Candidate): Hit | undefined {
  const { title, price, currency, city, district, rooms, area_total, url } = listing;
  const facts = { title, price, currency, city, district, rooms, area_total, url };
  const hit = { listingId: listing.listing_id, kind: candidate.kind, listing: facts };
  if (candidate.kind === 'new') return { ...hit, oldPrice: null };
  const { oldPrice } = candidate;
  const isStill = price !== null && price < oldPrice && currency === candidate.currency;
  return isStill ? { ...hit, oldPrice } : undefined;
}

/**
 * What a find that waits to be told is by now.
 * @param listing As its search finds it now.
 * @returns Nothing for one that became cheaper, and is not any more.
 */
export function asItIsNow(
  { kind, oldPrice, listing: { currency } }: Hit,
  listing: Listing,
): Hit | undefined {
  if (oldPrice === null) return toHit(listing, { kind: 'new' });
  if (kind === 'cheaper') return toHit(listing, { kind, oldPrice, currency });
  const hit = toHit(listing, { kind });
  // What a new one cost before says nothing beside a price in another currency.
  return hit && listing.currency === currency ? { ...hit, oldPrice } : hit;
}
