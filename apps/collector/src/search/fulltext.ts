import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { createRankedSearch, type RankedSearch } from './ranked-search.ts';
import { rankMatches } from './ranking.sql.ts';
import { RANKED_MATCHES } from './schemas.ts';

/**
 * Full-text search, ranked by cover density. Specification 001, Behaviour rules; Contract 4, Search.
 * @param rankedMatches How many of the newest matches are ranked.
 * @throws ProblemError as `createRankedSearch` says.
 */
export function createFulltextSearch(deps: {
  db: Kysely<Tables>;
  rankedMatches?: number | undefined;
}): RankedSearch {
  const { db, rankedMatches: bound = RANKED_MATCHES } = deps;
  return createRankedSearch(db, 'fulltext', async ({ text, filters }, after) => {
    const matches = { text, filters, bound, newestId: after?.newestId };
    const { ranked, newestId } = await rankMatches(db, matches);
    return { hits: ranked, newestId, isCut: ranked.length >= bound };
  });
}
