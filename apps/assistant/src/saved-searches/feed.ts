import { setTimeout as sleep } from 'node:timers/promises';
import { retryConflicts } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import {
  type ChangesPage,
  type CollectorClient,
  CollectorError,
  type Listing,
} from '../collector/client.ts';
import type { Tables } from '../tables.ts';
import { toStorableJson } from '../text.ts';
import type { DigestMetrics } from './metrics.ts';
import type { Search } from './search.ts';

const REQUEST_TIMEOUT_MS = 20_000;

/** Maximum wait after the collector responds with 429. The request fails if the collector asks for more. */
const MAX_WAIT_SECONDS = 60;

/** Maximum number of pages that are read before digests are sent. */
const MAX_PAGES = 100;

const MAX_BATCH_SIZE = 500;

/** Reason to consider a listing: it is new or has returned, or it is cheaper than `oldPrice` in the same currency. */
type CandidateReason = {
  kind: 'new' | 'cheaper';
  oldPrice: number | null;
  currency: string | null;
};

const NEW_CANDIDATE: CandidateReason = { kind: 'new', oldPrice: null, currency: null };

export type FeedDeps = {
  db: Kysely<Tables>;
  collector: Pick<CollectorClient, 'listChanges' | 'findMatches'>;
  metrics: DigestMetrics;
  log: Pick<Logger, 'warn'>;
};

/** SQL condition for searches that are not paused and have a session for digests. */
export const whereActive = sql<boolean>`(not saved_searches.paused
  and saved_searches.session_id is not null)`;

/**
 * Reads the collector's change feed from the stored cursor, and stores the listings that each saved search finds. Each
 * search stores a listing once, so a page can be read any number of times. Stops at the end of the feed, or after
 * `MAX_PAGES` pages.
 * @throws CollectorError; an error of the database; the signal's reason.
 * @see docs/adr/0025-saved-searches.md
 */
export async function readFeed(deps: FeedDeps, signal: AbortSignal): Promise<void> {
  const { db, metrics } = deps;
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const { cursor, caught_up_at } = await db
      .selectFrom('collector_feed')
      .select(['cursor', 'caught_up_at'])
      .executeTakeFirstOrThrow();
    metrics.setCaughtUpAt(caught_up_at);
    const page = await readPage(deps, cursor, signal);
    await storeHits(deps, findCandidates(page.items), signal);
    const { numUpdatedRows } = await db
      .updateTable('collector_feed')
      .set({
        cursor: page.cursor,
        ...(!page.has_more && { caught_up_at: sql<Date>`now()` }),
      })
      .where(sql<boolean>`cursor is not distinct from ${cursor}`)
      .executeTakeFirstOrThrow();
    // If no row was updated, another process has moved the cursor after this process lost its lease.
    if (numUpdatedRows === 0n || !page.has_more) return;
  }
}

/**
 * Returns the page after a cursor. Without a cursor, or with one that the collector does not know, the page is empty
 * and has the current cursor.
 */
async function readPage(
  { collector, log }: FeedDeps,
  cursor: string | null,
  signal: AbortSignal,
): Promise<ChangesPage> {
  const requestChanges = (after?: string) =>
    requestCollector((requestSignal) => collector.listChanges(after, requestSignal), signal);
  if (cursor === null) return requestChanges();
  try {
    return await requestChanges(cursor);
  } catch (error) {
    if (!(error instanceof CollectorError) || error.status !== 422) throw error;
    log.warn(
      { err: error },
      'the collector does not know the cursor of its feed, as after restoring an older copy of its database: saved searches continue with changes from now on',
    );
    return requestChanges();
  }
}

/** Returns the new and cheaper listings of a page. Returned listings count as new, and new ones never as cheaper. */
export function findCandidates(changes: ChangesPage['items']): Map<number, CandidateReason> {
  const candidates = new Map<number, CandidateReason>();
  for (const change of changes) {
    const id = change.listing_id;
    if (change.kind !== 'price_changed') {
      candidates.set(id, NEW_CANDIDATE);
      continue;
    }
    const { price_from: oldPrice, price_to: newPrice, currency_from, currency_to } = change;
    const isReduced =
      oldPrice !== null &&
      newPrice !== null &&
      newPrice < oldPrice &&
      currency_from === currency_to;
    if (isReduced && !candidates.has(id)) {
      candidates.set(id, { kind: 'cheaper', oldPrice, currency: currency_to });
    }
  }
  return candidates;
}

/** Returns whether a matching listing is still a hit: a new one always, another only while it is cheaper. */
export function isStillHit(
  { kind, oldPrice, currency: oldCurrency }: CandidateReason,
  { price, currency }: Pick<Listing, 'price' | 'currency'>,
): boolean {
  if (kind === 'new') return true;
  return price !== null && oldPrice !== null && price < oldPrice && currency === oldCurrency;
}

/** Requests the candidates that each distinct search finds, and stores them as hits of all identical searches. */
async function storeHits(
  { db, collector, metrics, log }: FeedDeps,
  candidates: ReadonlyMap<number, CandidateReason>,
  signal: AbortSignal,
): Promise<void> {
  if (candidates.size === 0) return;
  const ids = [...candidates.keys()];
  for await (const search of listDistinctSearches(db)) {
    try {
      const request = (requestSignal: AbortSignal) =>
        collector.findMatches({ ...search, ids }, requestSignal);
      const rows = (await requestCollector(request, signal)).flatMap((listing) => {
        const candidate = candidates.get(listing.listing_id);
        if (candidate === undefined || !isStillHit(candidate, listing)) return [];
        const { kind, oldPrice: old_price, currency } = candidate;
        return [{ listing_id: listing.listing_id, kind, old_price, listing: { currency } }];
      });
      if (rows.length === 0) continue;
      const { rows: storedHits } = await retryConflicts(() =>
        sql<{ kind: CandidateReason['kind'] }>`
          insert into saved_search_hits (search_id, listing_id, kind, old_price, listing)
          select saved_searches.id, hit.* from saved_searches,
            jsonb_to_recordset(${toStorableJson(rows)}::jsonb) as hit
              (listing_id bigint, kind text, old_price double precision, listing jsonb)
          where saved_searches.search = ${toStorableJson(search)}::jsonb and ${whereActive}
          on conflict (search_id, listing_id) do nothing
          returning kind`.execute(db),
      );
      for (const { kind } of storedHits) metrics.countHit(kind);
    } catch (error) {
      // A collector of a different version may reject a filter. The other searches continue.
      if (!(error instanceof CollectorError) || error.status !== 422) throw error;
      log.warn({ err: error }, 'the collector rejected a saved search, which finds nothing');
    }
  }
}

async function* listDistinctSearches(db: Kysely<Tables>): AsyncGenerator<Search> {
  for (let after: Search | undefined; ;) {
    let query = db
      .selectFrom('saved_searches')
      .select(sql<Search>`search`.as('search'))
      .where(whereActive)
      .groupBy('search')
      .orderBy('search')
      .limit(MAX_BATCH_SIZE);
    if (after !== undefined)
      query = query.where(sql<boolean>`search > ${toStorableJson(after)}::jsonb`);
    const rows = await query.execute();
    for (const { search } of rows) yield search;
    after = rows.at(-1)?.search;
    if (rows.length < MAX_BATCH_SIZE) return;
  }
}

/**
 * Sends a request to the collector, and retries it while the collector responds with 429 and a wait of at most
 * `MAX_WAIT_SECONDS`.
 * @throws CollectorError; the signal's reason.
 */
export async function requestCollector<Result>(
  request: (signal: AbortSignal) => Promise<Result>,
  signal: AbortSignal,
): Promise<Result> {
  for (;;) {
    try {
      return await request(AbortSignal.any([signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]));
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof CollectorError) || error.status !== 429) throw error;
      const { retryAfterSeconds: seconds = 1 } = error;
      if (seconds > MAX_WAIT_SECONDS) throw error;
      await sleep(seconds * 1000, undefined, { signal });
    }
  }
}
