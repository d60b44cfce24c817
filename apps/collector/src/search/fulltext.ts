import type { Kysely } from 'kysely';
import type { Tables } from '../database.ts';
import { readCursor, type Search, writeCursor } from './cursor.ts';
import { checkRanges } from './filters.ts';
import { normaliseText } from './normalise.ts';
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
    const { query, limit = DEFAULT_LIMIT, cursor, highlight = false, ...filters } = request;
    checkRanges(filters);
    const text = normaliseText(query);
    const search: Search = { kind: 'fulltext', text, filters };
    const after = cursor === undefined ? undefined : readCursor(search, cursor);
    if (text === '') return NOTHING;

    // One more than the page shows whether there is another page.
    const { hits, ranked, newestId } = await rankMatches(db, {
      text,
      filters,
      limit: limit + 1,
      bound: rankedMatches,
      after,
      newestId: after?.newestId,
    });
    const shown = hits.slice(0, limit);
    const last = hits.length > limit ? shown.at(-1) : undefined;
    return {
      items: await toResults(db, shown, highlight ? text : undefined),
      total: { value: ranked, relation: ranked < rankedMatches ? 'eq' : 'gte' },
      next_cursor:
        last === undefined
          ? null
          : writeCursor(search, { ...last, newestId: after?.newestId ?? newestId }),
    };
  };
}

const NOTHING: Omit<FulltextSearchResponse, 'took_ms'> = {
  items: [],
  total: { value: 0, relation: 'eq' },
  next_cursor: null,
};
