import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import type { ResolvedFilters } from './filters.ts';
import type { TermGroup } from './query-analysis.ts';
import { type RankedPage, rankPage, type WordQuery } from './ranking.ts';
import { HYBRID_RANKED_MATCHES } from './schemas.ts';
import { expandUnknownWords, type WeightedGroup } from './vocabulary.ts';
import { createStemQuery } from './word-queries.ts';

/** Number of hits below which listings without one of the words are found too. */
const MIN_HITS = 20;
/** Number of words of a query that count, the rarest ones. */
const MAX_GROUPS = 8;

type StemHits = Pick<RankedPage, 'hits' | 'matchCount'> & {
  groups: WeightedGroup[];
  /** Undefined if the query has no words. */
  words: WordQuery | undefined;
};

/**
 * Finds the best listings by the stems, synonyms and facts of a query. If few have all its words, listings follow that
 * lack some.
 * @param options.newestId Excludes listings with a larger ID.
 * @returns The best hits, the words of the query as they were looked up, and the query that found the hits.
 */
export async function searchByStems(
  db: Kysely<Tables>,
  queryGroups: readonly TermGroup[],
  options: { filters: ResolvedFilters; limit: number; newestId: number },
): Promise<StemHits> {
  const { filters, ...page } = options;
  const expandedGroups = await expandUnknownWords(db, queryGroups);
  const requiredGroups = expandedGroups
    .filter(({ isPreference }) => !isPreference)
    .toSorted((a, b) => b.weight - a.weight)
    .slice(0, MAX_GROUPS);
  const groups = [...requiredGroups, ...expandedGroups.filter(({ isPreference }) => isPreference)];
  let result: StemHits = { hits: [], matchCount: 0, groups, words: undefined };
  for (
    let missing = 0;
    missing < requiredGroups.length && result.hits.length < MIN_HITS;
    missing += 1
  ) {
    const words = createStemQuery(groups, missing);
    const search = { words, filters, minRankedMatches: HYBRID_RANKED_MATCHES };
    const ranked = await rankPage(db, search, page);
    result = { ...ranked, groups, words };
  }
  return result;
}
