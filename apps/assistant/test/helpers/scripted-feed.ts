import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { deferCleanup, listen } from '@oselya/testing';
import type { ChangesPage, Listing, MatchesRequest } from '../../src/collector/client.ts';
import { listing } from './scripted-collector.ts';

const CHANGES = '/api/v1/listings/changes';

type Change = ChangesPage['items'][number];

/** A failure that replaces an answer. */
type Fault = { status: number; retryAfter?: number } | 'cut';

/** Starts a collector with a scripted feed of changes and their matches. Cursors are numbers. */
export async function startScriptedFeed() {
  const changes: Change[] = [];
  const listings = new Map<number, Listing>();
  const feed = {
    url: '',
    pageSize: 100,
    /** The requests for matches. */
    matched: [] as MatchesRequest[],
    /** The number of pages of changes that were sent. */
    pages: 0,
    /** Returns the failure of a request; undefined for an answer. */
    failureOf: (_path: string): Fault | undefined => undefined,
    /** Promise that delays each response with matches. */
    gate: undefined as Promise<void> | undefined,
    /** The number of requests that have reached the gate. */
    waiting: 0,
    /** Adds a listing. */
    add(listingId: number, facts: Partial<Listing> = {}): void {
      listings.set(listingId, listing(listingId, facts));
      changes.push({ ...nothing, listing_id: listingId, kind: 'new' });
    },
    /** Changes the price of a listing. */
    price(listingId: number, price: number | null): void {
      const before = listings.get(listingId);
      if (before === undefined) throw new Error(`There is no listing ${listingId}`);
      listings.set(listingId, { ...before, price });
      changes.push({
        ...nothing,
        listing_id: listingId,
        kind: 'price_changed',
        price_from: before.price,
        price_to: price,
        currency_from: before.currency,
        currency_to: before.currency,
      });
    },
    /** Archives a listing, without a change in the feed. */
    archive: (listingId: number): void => void listings.delete(listingId),
    /** Deletes all changes, as the restore of an older database does. */
    restore: (): void => void changes.splice(0),
  };
  const server = createServer((request, response) => {
    void answer(request, response).catch(() => response.destroy());
  });

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://feed');
    const body = request.method === 'POST' ? await json(request) : undefined;
    if (pathname !== CHANGES && feed.gate !== undefined) {
      feed.waiting += 1;
      await feed.gate;
    }
    const fault = feed.failureOf(pathname);
    if (fault === 'cut') return void response.destroy();
    const send = (status: number, content: object, type = 'application/json') =>
      response
        .writeHead(status, {
          'content-type': type,
          ...(fault?.retryAfter !== undefined && { 'retry-after': String(fault.retryAfter) }),
        })
        .end(JSON.stringify(content));
    const fail = (status: number) =>
      send(status, { status, title: 'It failed' }, 'application/problem+json');
    if (fault !== undefined) return void fail(fault.status);
    if (pathname === CHANGES) {
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
      const found = listings.get(id);
      return found !== undefined && matches(found, search) ? { listing: found } : [];
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

/** See {@link startScriptedFeed}. */
export type ScriptedFeed = Awaited<ReturnType<typeof startScriptedFeed>>;

const nothing: Omit<Change, 'listing_id' | 'kind'> = {
  source_slug: 'samples',
  price_from: null,
  price_to: null,
  currency_from: null,
  currency_to: null,
  changed_at: '2026-03-02T09:15:00.000Z',
};

function matches(found: Listing, { city, price_max: most = Infinity }: MatchesRequest): boolean {
  return (city === undefined || city === found.city) && (found.price ?? Infinity) <= most;
}
