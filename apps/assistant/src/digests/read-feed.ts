import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { type ChangesPage, type Collector, CollectorError } from '../collector/client.ts';
import type { Search } from '../saved-searches/index.ts';
import type { Tables } from '../tables.ts';
import { askCollector, LeaseLostError } from './ask-collector.ts';
import { type Candidate, toCandidates, toHit } from './changes.ts';
import {
  activeSearches,
  type ActiveSearch,
  claimFeed,
  type Found,
  type ReadPage,
  storePage,
} from './feed.sql.ts';
import type { DigestMetrics } from './metrics.ts';

/** How many pages are read before digests are looked at again. */
const MOST_PAGES = 100;

/** See {@link FeedDeps.searchesAtOnce}. */
const SEARCHES_AT_ONCE = 500;

/** Past how many different searches their answers are forgotten, though others that are equal may follow. */
const MOST_ANSWERS = 1000;

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
  /** How many searches are read at once, and have what they found stored together. */
  searchesAtOnce?: number | undefined;
};

/**
 * What this process was answered about a page: where it could not be read to its end, the next attempt goes on where
 * the last one failed.
 */
export type Answered = {
  /** The cursors between which the page is. */
  page: string;
  /** By what was searched for, as JSON. */
  answers: Map<string, Answer>;
  /** The id of the last search for which what it found is stored, as for those before it. */
  storedTo: string;
  /** Searches that were refused, and are told in the log once. */
  refused: Set<string>;
};

/** See {@link Answered}. */
export const nothingAnswered = (): Answered => ({
  page: '',
  answers: new Map(),
  storedTo: '',
  refused: new Set(),
});

type Answer = Pick<Found, 'hits' | 'answeredAt'>;

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
      const page = { from: place.cursor, to: cursor, isLast: !has_more };
      if (!(await readPage(deps, page, toCandidates(items), signal))) return false;
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
    askCollector(deps, (until) => collector.listChanges(after, until), signal);
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
  answered.answers.clear();
  answered.storedTo = '';
}

/**
 * Asks for each search which of the candidates of a page it finds, and stores that, a bounded number of searches at a
 * time; with the last of them, that the page was read.
 * @returns Whether this process is still the one that reads the feed.
 */
async function readPage(
  deps: FeedDeps,
  page: Omit<ReadPage, 'found'>,
  candidates: ReadonlyMap<number, Candidate>,
  signal: AbortSignal,
): Promise<boolean> {
  const { db, holder, metrics, answered, searchesAtOnce: limit = SEARCHES_AT_ONCE } = deps;
  const { from } = page;
  for (;;) {
    const { storedTo: after } = answered;
    // After the page was read: a search that is made from now on is about what comes after it.
    const searches = candidates.size === 0 ? [] : await activeSearches(db, { after, limit });
    const found = await findHits(deps, searches, candidates, signal);
    const isWhole = searches.length < limit;
    const read = isWhole ? page : { from, to: from, isLast: false };
    const counts = await storePage(db, holder, { ...read, found });
    if (counts === undefined) return false;
    metrics.countHits(counts);
    if (isWhole) return true;
    answered.storedTo = searches.at(-1)?.id ?? after;
    if (answered.answers.size >= MOST_ANSWERS) answered.answers.clear();
  }
}

/** What searches find among the candidates. */
async function findHits(
  deps: FeedDeps,
  searches: readonly ActiveSearch[],
  candidates: ReadonlyMap<number, Candidate>,
  signal: AbortSignal,
): Promise<Found[]> {
  const { answers } = deps.answered;
  const found = new Map<string, Found & { ids: string[] }>();
  for (const { id, search } of searches) {
    const text = JSON.stringify(search);
    const equal = found.get(text);
    if (equal !== undefined) {
      equal.ids.push(id);
      continue;
    }
    const answer = answers.get(text) ?? (await askAbout(deps, search, candidates, signal));
    answers.set(text, answer);
    found.set(text, { search, ids: [id], ...answer });
  }
  return [...found.values()].filter(({ hits }) => hits.length > 0);
}

async function askAbout(
  deps: FeedDeps,
  search: Search,
  candidates: ReadonlyMap<number, Candidate>,
  signal: AbortSignal,
): Promise<Answer> {
  const listings = await matchesOf(deps, search, [...candidates.keys()], signal);
  const answeredAt = performance.now();
  const hits = listings.flatMap((listing) => {
    const candidate = candidates.get(listing.listing_id);
    return (candidate && toHit(listing, candidate)) ?? [];
  });
  return { hits, answeredAt };
}

async function matchesOf(deps: FeedDeps, search: Search, ids: number[], signal: AbortSignal) {
  const { collector, log } = deps;
  const { refused } = deps.answered;
  const text = JSON.stringify(search);
  try {
    const body = { ...search, ids };
    const found = await askCollector(deps, (until) => collector.findMatches(body, until), signal);
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
