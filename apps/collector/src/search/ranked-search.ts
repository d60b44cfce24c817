import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { type Position, readCursor, type Search } from './cursor.ts';
import { checkRanges } from './filters.ts';
import { foldGroups } from './fold.ts';
import { normaliseText } from '../text.ts';
import { pageOf } from './pages.ts';
import { toResults } from './results.ts';
import {
  DEFAULT_LIMIT,
  type FulltextSearchRequest,
  type FulltextSearchResponse,
  type SearchFilters,
} from './schemas.ts';

/** What is asked for: as it was written, and as the search normaliser writes it, which has a word. */
export type Question = { written: string; text: string; filters: SearchFilters };

/** What a search has found, in its order, before it is divided into pages. */
export type Ranking = {
  /** In the order of `byRank`. */
  hits: { id: number; rank: number; group: number | null }[];
  /** Listings that came after this one were left out. */
  newestId: number;
  /** Whether there may be more than these. */
  isCut: boolean;
};

/** @param signal Given when nobody waits for the answer any more. */
export type RankedSearch = (
  request: FulltextSearchRequest,
  signal: AbortSignal,
) => Promise<Omit<FulltextSearchResponse, 'took_ms'>>;

/**
 * A search that ranks listings, in pages that a cursor walks exactly once. A query without a word finds
 * nothing. Contract 4, Search.
 * @param rank Ranks the listings; those that came after the first page are left out of the next ones.
 * @throws ProblemError `validation_failed` for an empty range or a cursor of another search; what `rank`
 *   throws.
 */
export function createRankedSearch(
  db: Kysely<Tables>,
  kind: Search['kind'],
  rank: (question: Question, after: Position | undefined, signal: AbortSignal) => Promise<Ranking>,
): RankedSearch {
  return async (request, signal) => {
    const { query, limit = DEFAULT_LIMIT, cursor, highlight = false, ...rest } = request;
    const { fold_duplicates = false, ...filters } = rest;
    checkRanges(filters);
    const text = normaliseText(query);
    const search: Search = { kind, text, filters, folded: fold_duplicates };
    const after = cursor === undefined ? undefined : readCursor(search, cursor);
    if (text === '') return NOTHING;

    const { hits, newestId, isCut } = await rank({ written: query, text, filters }, after, signal);
    const found = fold_duplicates ? foldGroups(hits) : hits;
    const { shown, next_cursor } = pageOf(found, { search, after, limit, newestId });
    return {
      items: await toResults(db, shown, {
        text: highlight ? text : undefined,
        folded: fold_duplicates ? filters : undefined,
      }),
      total: { value: found.length, relation: isCut ? 'gte' : 'eq' },
      next_cursor,
    };
  };
}

const NOTHING: Omit<FulltextSearchResponse, 'took_ms'> = {
  items: [],
  total: { value: 0, relation: 'eq' },
  next_cursor: null,
};
