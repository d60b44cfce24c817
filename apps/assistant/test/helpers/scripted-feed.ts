import { startServer } from '@oselya/testing';
import type { ChangesPage, Listing, MatchesRequest } from '../../src/collector/client.ts';
import { createProblemResponse, listing } from './scripted-collector.ts';

const CHANGES_PATH = '/api/v1/listings/changes';

type Change = ChangesPage['items'][number];

/** Failure that replaces an answer. */
type Failure = { status: number; retryAfter?: number } | 'reset';

/** Starts a collector with a scripted change feed and matches. Cursors are numbers. */
export async function startScriptedFeed() {
  const changes: Change[] = [];
  const listings = new Map<number, Listing>();
  const feed = {
    url: '',
    pageSize: 100,
    /** Match requests that were answered without a failure. */
    matched: [] as MatchesRequest[],
    /** Returns the failure of a request, or undefined if the request succeeds. */
    failureOf: (_path: string): Failure | undefined => undefined,
    /** Promise that delays each response to a match request. */
    gate: undefined as Promise<void> | undefined,
    /** Number of requests that have reached the gate. */
    waiting: 0,
    add(listingId: number, fields: Partial<Listing> = {}): void {
      listings.set(listingId, listing(listingId, fields));
      changes.push({ ...EMPTY_CHANGE, listing_id: listingId, kind: 'new' });
    },
    price(listingId: number, price: number | null): void {
      const oldListing = listings.get(listingId);
      if (oldListing === undefined) throw new Error(`There is no listing ${listingId}`);
      listings.set(listingId, { ...oldListing, price });
      changes.push({
        ...EMPTY_CHANGE,
        listing_id: listingId,
        kind: 'price_changed',
        price_from: oldListing.price,
        price_to: price,
        currency_from: oldListing.currency,
        currency_to: oldListing.currency,
      });
    },
    /** Archives a listing, without a change in the feed. */
    archive: (listingId: number): void => void listings.delete(listingId),
    /** Deletes all changes, as restoring an older database does. */
    restore: (): void => void changes.splice(0),
  };
  const server = await startServer(async ({ path, body }) => {
    const { pathname, searchParams } = new URL(path, 'http://feed');
    if (pathname !== CHANGES_PATH && feed.gate !== undefined) {
      feed.waiting += 1;
      await feed.gate;
    }
    const failure = feed.failureOf(pathname);
    if (failure === 'reset') return failure;
    const fail = (status: number, headers = {}) =>
      createProblemResponse({ status, title: 'It failed' }, headers);
    if (failure !== undefined) {
      const { status, retryAfter } = failure;
      return fail(status, { ...(retryAfter !== undefined && { 'retry-after': `${retryAfter}` }) });
    }
    if (pathname === CHANGES_PATH) {
      const from = Number(searchParams.get('after') ?? changes.length);
      if (from > changes.length) return fail(422);
      const to = Math.min(from + feed.pageSize, changes.length);
      const items = changes.slice(from, to);
      return { body: { items, cursor: String(to), has_more: to < changes.length } };
    }
    const search = body as MatchesRequest;
    feed.matched.push(search);
    const items = search.ids.flatMap((id) => {
      const candidate = listings.get(id);
      return candidate !== undefined && isMatch(candidate, search) ? { listing: candidate } : [];
    });
    return { body: { items, took_ms: 1 } };
  });
  feed.url = server.url;
  return feed;
}

const EMPTY_CHANGE: Omit<Change, 'listing_id' | 'kind'> = {
  source_slug: 'samples',
  price_from: null,
  price_to: null,
  currency_from: null,
  currency_to: null,
  changed_at: '2026-03-02T09:15:00.000Z',
};

function isMatch(
  candidate: Listing,
  { city, price_max: maxPrice = Infinity }: MatchesRequest,
): boolean {
  return (
    (city === undefined || city === candidate.city) && (candidate.price ?? Infinity) <= maxPrice
  );
}
