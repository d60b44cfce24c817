import type { Kysely } from 'kysely';
import type { Tables } from '../database.ts';
import { readCursor, type Search } from './cursor.ts';
import { checkRanges } from './filters.ts';
import { foldGroups } from './fold.ts';
import { normaliseText } from './normalise.ts';
import { pageOf } from './pages.ts';
import { rankMatches } from './ranking.sql.ts';
import { toResults } from './results.ts';
import {
  DEFAULT_LIMIT,
  type FulltextSearchRequest,
  type FulltextSearchResponse,
  RANKED_MATCHES,
} from './schemas.ts';

export type FulltextSearch = (
  request: FulltextSearchRequest,
) => Promise<Omit<FulltextSearchResponse, 'took_ms'>>;

/**
 * Full-text search, ranked by cover density, in pages that a cursor walks exactly once. A query
 * without a word finds nothing. Specification 001, Behaviour rules; Contract 4, Search.
 * @param rankedMatches How many of the newest matches are ranked.
 * @throws ProblemError `validation_failed` for an empty range or a cursor of another search.
 */
export function createFulltextSearch(deps: {
  db: Kysely<Tables>;
  rankedMatches?: number | undefined;
}): FulltextSearch {
  const { db, rankedMatches = RANKED_MATCHES } = deps;
  return async (request) => {
    const { query, limit = DEFAULT_LIMIT, cursor, highlight = false, ...rest } = request;
    const { fold_duplicates = false, ...filters } = rest;
    checkRanges(filters);
    const text = normaliseText(query);
    const search: Search = { kind: 'fulltext', text, filters, folded: fold_duplicates };
    const after = cursor === undefined ? undefined : readCursor(search, cursor);
    if (text === '') return NOTHING;

    const bound = rankedMatches;
    const matches = { text, filters, bound, newestId: after?.newestId };
    const { ranked, newestId } = await rankMatches(db, matches);
    const hits = fold_duplicates ? foldGroups(ranked) : ranked;
    const { shown, next_cursor } = pageOf(hits, { search, after, limit, newestId });
    return {
      items: await toResults(db, shown, {
        text: highlight ? text : undefined,
        folded: fold_duplicates ? filters : undefined,
      }),
      total: { value: hits.length, relation: ranked.length < bound ? 'eq' : 'gte' },
      next_cursor,
    };
  };
}

const NOTHING: Omit<FulltextSearchResponse, 'took_ms'> = {
  items: [],
  total: { value: 0, relation: 'eq' },
  next_cursor: null,
};
