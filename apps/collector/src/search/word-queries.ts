import { type RawBuilder, sql } from 'kysely';
import { analyzeText, TITLE_MARK } from './listing-stems.ts';
import type { WordQuery } from './ranking.ts';
import type { WeightedGroup } from './vocabulary.ts';

/**
 * Creates the query for listings that contain all words of a text. Specification 001, Behaviour rules.
 * @param text Normalized text with at least one word.
 */
export function createExactQuery(text: string): WordQuery {
  const query = sql`plainto_tsquery('simple', ${text})`;
  const stemsOfWords = analyzeText(text).filter((stems) => stems.length > 0);
  const titleQuery = stemsOfWords
    .map((stems) => `(${stems.map((stem) => `'${TITLE_MARK}${stem}'`).join(' | ')})`)
    .join(' & ');
  return {
    column: 'words',
    query,
    rank: sql`ts_rank_cd(words, ${query})`,
    titleQuery: titleQuery === '' ? undefined : sql`${titleQuery}::tsquery`,
  };
}

/** Makes the weight of the matched groups decide before anything else. */
const COVERAGE_FACTOR = 10;

/** Normalization of `ts_rank` that divides the rank by the logarithm of the number of terms of the listing. */
const RANK_BY_LENGTH = 1;

/**
 * Creates the query for listings that match all groups of a query but some. They are ranked by the weight of the matched
 * groups, then by how often and where the terms occur.
 * @param missingCount Number of groups that a listing may lack.
 */
export function createStemQuery(groups: readonly WeightedGroup[], missingCount: number): WordQuery {
  const requiredGroups = groups.filter(({ isPreference }) => !isPreference);
  const operands = requiredGroups.map(({ tsquery }) => `(${tsquery})`);
  const totalWeight = groups.reduce((sum, { weight }) => sum + weight, 0) || 1;
  const scores = groups.map(({ tsquery, weight }) => {
    const query = toQuery(tsquery);
    return sql`(stems @@ ${query})::integer * ${(COVERAGE_FACTOR * weight) / totalWeight}::float8
      + ts_rank('{0.1, 0.2, 0.4, 1}', stems, ${query}, ${sql.lit(RANK_BY_LENGTH)}) * ${weight / totalWeight}::float8`;
  });
  return {
    column: 'stems',
    query: toQuery(combine(operands, operands.length - missingCount)),
    rank: sql`(${sql.join(scores, sql` + `)})::real`,
    titleQuery: missingCount === 0 ? toQuery(markTitle(operands.join(' & '))) : undefined,
  };
}

const toQuery = (text: string): RawBuilder<unknown> => sql`${text}::tsquery`;

const markTitle = (query: string) => query.replaceAll(/'([^']+)'/g, `'${TITLE_MARK}$1'`);

/** Returns a `tsquery` for at least `count` of the operands. */
function combine(operands: readonly string[], count: number): string {
  if (count === operands.length) return operands.join(' & ');
  return listSubsets(operands, count)
    .map((subset) => `(${subset.join(' & ')})`)
    .join(' | ');
}

function listSubsets(items: readonly string[], count: number): string[][] {
  const [first, ...rest] = items;
  if (count === 0) return [[]];
  if (first === undefined || count > items.length) return [];
  return [
    ...listSubsets(rest, count - 1).map((subset) => [first, ...subset]),
    ...listSubsets(rest, count),
  ];
}
