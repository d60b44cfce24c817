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

/**
 * Creates the query for listings that match all groups of a query but some. Listings with rarer groups come first, and
 * among equal ones those with the terms nearer together (cover density).
 * @param missingCount Number of groups that a listing may lack.
 */
export function createStemQuery(groups: readonly WeightedGroup[], missingCount: number): WordQuery {
  const operands = groups.map(({ tsquery }) => `(${tsquery})`);
  const query = toQuery(combine(operands, operands.length - missingCount));
  const anyGroup = toQuery(operands.join(' | '));
  const weights = groups.map(
    ({ tsquery, weight }) =>
      sql`case when stems @@ ${toQuery(tsquery)} then ${weight}::real else 0 end`,
  );
  const coverDensity = sql`ts_rank_cd(stems, ${anyGroup}, ${sql.lit(RANK_BELOW_ONE)})`;
  const title = markTitle(operands.join(' & '));
  return {
    column: 'stems',
    query,
    rank: sql`((${missingCount === 0 ? sql`0` : sql.join(weights, sql` + `)}) + ${coverDensity})::real`,
    titleQuery: missingCount === 0 ? toQuery(title) : undefined,
  };
}

/** Normalization of `ts_rank_cd` that divides the rank by itself plus one, so that it is less than 1. */
const RANK_BELOW_ONE = 32;

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
