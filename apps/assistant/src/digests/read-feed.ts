import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { type ChangesPage, type Collector, CollectorError } from '../collector/client.ts';
import type { Search } from '../saved-searches/index.ts';
import type { Tables } from '../tables.ts';
import { type Candidate, type Hit, toCandidates, toHit } from './changes.ts';
import { claimFeed, distinctSearches, type ReadPage, storePage } from './feed.sql.ts';
import type { DigestMetrics } from './metrics.ts';

/** How long one request to the collector may take. */
const REQUEST_MS = 20_000;

/** How long, and how often, the collector may put a request off before the page is left for the next time. */
const LONGEST_WAIT_SECONDS = 60;
const MOST_WAITS = 10;

/** How many pages are read before digests are looked at again. */
const MOST_PAGES = 100;

/** How many refused searches are remembered. */
const MOST_REFUSED = 1000;

/** What reading the feed needs. */
export type FeedDeps = {
  db: Kysely<Tables>;
  collector: Pick<Collector, 'listChanges' | 'findMatches'>;
  /** Names this process. */
  holder: string;
  metrics: DigestMetrics;
  log: Pick<Logger, 'warn'>;
  answered: Answered;
};

/**
 * What this process was answered about searches, by their text: in a page that could not be read to its end, so that
 * the next attempt goes on where the last one failed.
 */
export type Answered = {
  /** The cursors between which the page is. */
  page: string;
  hits: Map<string, Hit[]>;
  /** Searches that were refused, and are told in the log once. */
  refused: Set<string>;
};

/** See {@link Answered}. */
export const nothingAnswered = (): Answered => ({ page: '', hits: new Map(), refused: new Set() });

/** Another process reads the feed by now. */
class LeaseLostError extends Error {
  override readonly name = 'LeaseLostError';
}

/**
 * Reads the collector's feed of changes on from where it was left, and stores which saved searches have found what:
 * page by page, so that whatever ends it costs no more than a page that is read again. Equal searches are asked
 * about once.
 * @returns Whether this process is the one that reads the feed.
 * @throws CollectorError where the collector does not give what it is asked for; the signal's reason.
 */
export async function readFeed(deps: FeedDeps, signal: AbortSignal): Promise<boolean> {
  const { db, holder, metrics } = deps;
  try {
    for (let pages = 0; pages < MOST_PAGES; pages += 1) {
      const place = await claimFeed(db, holder);
      if (place === undefined) return false;
      metrics.noteCaughtUp(place.caughtUpAt);
      const { items, cursor, has_more } = await nextPage(deps, place.cursor, signal);
      noteAnswered(deps.answered, `${place.cursor} ${cursor}`);
      const found = await findHits(deps, toCandidates(items), signal);
      const page = { from: place.cursor, to: cursor, isLast: !has_more, found };
      const counts = await storePage(db, holder, page);
      if (counts === undefined) return false;
      metrics.countHits(counts);
      if (!has_more) break;
    }
    return true;
  } catch (error) {
    if (error instanceof LeaseLostError) return false;
    throw error;
  }
}

/** The page after a cursor, which may be one that the collector does not know any more. */
async function nextPage(
  deps: FeedDeps,
  cursor: string | null,
  signal: AbortSignal,
): Promise<ChangesPage> {
  const { collector, log } = deps;
  const ask = (after?: string) =>
    patiently(deps, (until) => collector.listChanges(after, until), signal);
  if (cursor === null) return ask();
  try {
    return await ask(cursor);
  } catch (error) {
    if (!(error instanceof CollectorError) || error.status !== 422) throw error;
    log.warn(
      { err: error },
      'the collector does not know how far its feed was read, as after the restore of an older copy of its database: saved searches go on with what changes from now',
    );
    return ask();
  }
}

/** Forgets what was answered about another page. */
function noteAnswered(answered: Answered, page: string): void {
  if (answered.page === page) return;
  answered.page = page;
  answered.hits.clear();
}

/** What the saved searches of this moment find among the candidates. */
async function findHits(
  deps: FeedDeps,
  candidates: ReadonlyMap<number, Candidate>,
  signal: AbortSignal,
): Promise<ReadPage['found']> {
  if (candidates.size === 0) return [];
  const { hits: answered } = deps.answered;
  const found: { search: Search; hits: Hit[] }[] = [];
  // After the page was read: a search that is made from now on is about what comes after it.
  for (const search of await distinctSearches(deps.db)) {
    const text = JSON.stringify(search);
    const hits = answered.get(text) ?? (await hitsOf(deps, search, candidates, signal));
    answered.set(text, hits);
    if (hits.length > 0) found.push({ search, hits });
  }
  return found;
}

async function hitsOf(
  deps: FeedDeps,
  search: Search,
  candidates: ReadonlyMap<number, Candidate>,
  signal: AbortSignal,
): Promise<Hit[]> {
  const listings = await matchesOf(deps, search, [...candidates.keys()], signal);
  return listings.flatMap((listing) => {
    const candidate = candidates.get(listing.listing_id);
    return (candidate && toHit(listing, candidate)) ?? [];
  });
}

async function matchesOf(deps: FeedDeps, search: Search, ids: number[], signal: AbortSignal) {
  const { collector, log } = deps;
  const { refused } = deps.answered;
  const text = JSON.stringify(search);
  try {
    const body = { ...search, ids };
    const found = await patiently(deps, (until) => collector.findMatches(body, until), signal);
    refused.delete(text);
    return found;
  } catch (error) {
    const isRefused = error instanceof CollectorError && error.status === 422;
    if (!isRefused) throw error;
    // A collector of another version may know other filters: the other searches need not wait for that.
    if (!refused.has(text)) {
      log.warn({ err: error }, 'the collector refused a saved search, which finds nothing');
    }
    if (refused.size === MOST_REFUSED) refused.clear();
    refused.add(text);
    return [];
  }
}

/** Asks, and again where the collector says that it was asked too often; the lease is renewed with each try. */
async function patiently<Result>(
  { db, holder }: FeedDeps,
  ask: (signal: AbortSignal) => Promise<Result>,
  signal: AbortSignal,
): Promise<Result> {
  for (let waits = 0; ; waits += 1) {
    signal.throwIfAborted();
    if ((await claimFeed(db, holder)) === undefined) throw new LeaseLostError();
    try {
      return await ask(AbortSignal.any([signal, AbortSignal.timeout(REQUEST_MS)]));
    } catch (error) {
      signal.throwIfAborted();
      const isTooOften = error instanceof CollectorError && error.status === 429;
      const seconds = isTooOften ? (error.retryAfterSeconds ?? 1) : Infinity;
      if (seconds > LONGEST_WAIT_SECONDS || waits === MOST_WAITS) throw error;
      await sleep(seconds * 1000, undefined, { signal });
    }
  }
}
