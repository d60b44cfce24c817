import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { deferCleanup, listen } from '@oselya/testing';
import type { ChangesPage, Listing, MatchesRequest } from '../../src/collector/client.ts';
import { listing } from './scripted-collector.ts';

const CHANGES_PATH = '/api/v1/listings/changes';

type Change = ChangesPage['items'][number];

/** Failure that replaces an answer. */
type Failure = { status: number; retryAfter?: number } | 'cut';

/** Starts a collector with a scripted feed of changes and their matches. Cursors are numbers. */
export async function startScriptedFeed() {
  const changes: Change[] = [];
  const listings = new Map<number, Listing>();
  const feed = {
    url: '',
    pageSize: 100,
    /** Received match requests. */
    matched: [] as MatchesRequest[],
    /** Number of sent change pages. */
    pages: 0,
    /** Returns the failure of a request; undefined for an answer. */
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
  const server = createServer((request, response) => {
    void answer(request, response).catch(() => response.destroy());
  });

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://feed');
    const body = request.method === 'POST' ? await json(request) : undefined;
    if (pathname !== CHANGES_PATH && feed.gate !== undefined) {
      feed.waiting += 1;
      await feed.gate;
    }
    const failure = feed.failureOf(pathname);
    if (failure === 'cut') return void response.destroy();
    const send = (status: number, content: object, type = 'application/json') =>
      response
        .writeHead(status, {
          'content-type': type,
          ...(failure?.retryAfter !== undefined && { 'retry-after': String(failure.retryAfter) }),
        })
        .end(JSON.stringify(content));
    const fail = (status: number) =>
      send(status, { status, title: 'It failed' }, 'application/problem+json');
    if (failure !== undefined) return void fail(failure.status);
    if (pathname === CHANGES_PATH) {
      const from = Number(searchParams.get('after') ?? changes.length);
      if (from > changes.length) return void fail(422);
      const to = Math.min(from + feed.pageSize, changes.length);
      feed.pages += 1;
      const items = changes.slice(from, to);
      return void send(200, { items, cursor: String(to), has_more: to < changes.length });
    }
    const search = body as MatchesRequest;
    feed.matched.push(search);
    const items = search.ids.flatMap((id) => {
      const candidate = listings.get(id);
      return candidate !== undefined && isMatch(candidate, search) ? { listing: candidate } : [];
    });
    return void send(200, { items, took_ms: 1 });
  }

  deferCleanup(() => {
    server.closeAllConnections();
    server.close();
  });
  feed.url = `http://127.0.0.1:${await listen(server)}`;
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
