import type { Kysely } from 'kysely';
import type { Collector } from '../collector/client.ts';
import type { Tables } from '../tables.ts';
import { askCollector, type Patience } from './ask-collector.ts';
import { asItIsNow } from './changes.ts';
import { listWaiting, renewWaiting } from './waiting.sql.ts';

/** How many listings one request asks about: the collector takes no more. */
const IDS_PER_REQUEST = 100;

/** How many finds of a search are looked at before a digest, the newest; it shows a few, and counts the others. */
const MOST_LOOKED_AT = 1000;

/**
 * Looks again at what a search found some time ago and has not told: what is otherwise by now is told as it is, and
 * what the search does not find any more is forgotten, so that it comes should the search find it again.
 * @throws CollectorError where the collector does not say; LeaseLostError; the signal's reason.
 */
export async function lookAgain(
  deps: {
    db: Kysely<Tables>;
    collector: Pick<Collector, 'findMatches'>;
    holder: string;
    /** How long it may wait for a collector that is asked too often. */
    patience: Patience;
  },
  searchId: string,
  signal: AbortSignal,
): Promise<void> {
  const { db, collector } = deps;
  const waiting = await listWaiting(db, { searchId, limit: MOST_LOOKED_AT });
  if (waiting === undefined) return;
  for (let from = 0; from < waiting.finds.length; from += IDS_PER_REQUEST) {
    const finds = waiting.finds.slice(from, from + IDS_PER_REQUEST);
    const body = { ...waiting.search, ids: finds.map(({ hit }) => hit.listingId) };
    const ask = (until: AbortSignal) => collector.findMatches(body, until);
    const listings = await askCollector(deps, ask, signal);
    const found = new Map(listings.map((listing) => [listing.listing_id, listing]));
    const looked = finds.map(({ hit, version }) => {
      const listing = found.get(hit.listingId);
      return { listingId: hit.listingId, version, now: listing && asItIsNow(hit, listing) };
    });
    await renewWaiting(db, { searchId, looked });
  }
}
