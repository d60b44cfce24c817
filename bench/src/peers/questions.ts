import { analyzeQuery, analyzeText } from '@oselya/collector/internals';
import { createQuestions } from '../search/questions.ts';
import { DIMENSIONS } from '../search/stack.ts';
import { NUMBER_COLUMNS } from './documents.ts';
import { toToken } from './export.ts';
import type { Alternative, Filters, Kind, Question } from './query.ts';

const LIMIT = 20;
/** Each has one deal, so that all its prices are in one currency. */
const FILTERS: readonly Filters[] = [
  { city: 'Львів', deal_type: 'rent', price_max: 15_000, currency: 'UAH', rooms_min: 2 },
  { city: 'Київ', deal_type: 'sale', price_min: 40_000, currency: 'USD', rooms_max: 3 },
  { city: 'Одеса', deal_type: 'daily_rent', price_max: 2000, currency: 'UAH', rooms_min: 1 },
];

/** Returns seeded questions of a kind: words that most listings have, few, and almost none, as in the suite `search`. */
export function createPeerQuestions(kind: Kind, count: number, seed: number): Question[] {
  const sourceKind = kind === 'vector' ? 'similar' : 'fulltext';
  const source = createQuestions(sourceKind, { count, seed, dimensions: DIMENSIONS });
  const hasFilters = kind === 'filtered' || kind === 'by price';
  return source.flatMap(({ query = '', embedding }, index) => {
    const groups = createWordGroups(query);
    // The collector's stems lack words such as "near", so peers could not find them.
    if (groups.length < query.split(' ').length && kind !== 'vector') return [];
    return {
      kind,
      ...(kind === 'by price' || kind === 'vector' ? { query: '', groups: [] } : { query, groups }),
      filters: hasFilters ? (FILTERS[index % FILTERS.length] ?? {}) : {},
      ...(embedding && { vector: embedding }),
      limit: LIMIT,
    };
  });
}

/** Returns the stems of each word of a text, and the facts that it states. */
export function createWordGroups(text: string): Alternative[][] {
  return toGroups(analyzeText(text).map((terms) => terms.map((term) => ({ terms: [term] }))));
}

/** Returns the groups of the collector's analysis of a query: words with their synonyms, places and facts. */
export function createAnalyzedGroups(query: string): Pick<Question, 'groups' | 'filters'> {
  const { groups, limits } = analyzeQuery(query);
  const ranges = NUMBER_COLUMNS.flatMap((column) => {
    const { [`${column}_min` as const]: min, [`${column}_max` as const]: max } = limits;
    if (min === undefined && max === undefined) return [];
    // Listings without a value have -1.
    return [[`${column}_min`, min ?? 0], ...(max === undefined ? [] : [[`${column}_max`, max]])];
  });
  const filters: Filters = Object.fromEntries(ranges);
  const hasPrice = filters.price_min !== undefined;
  return {
    groups: toGroups(groups.map(({ operands }) => operands.flatMap(parseOperand))),
    filters: { ...filters, ...(hasPrice && { currency: limits.currency ?? 'UAH' }) },
  };
}

const readTerms = (tsquery: string): string[] =>
  Array.from(tsquery.matchAll(/'([^']+)'/g), ([, term = '']) => term);

/** Reads an operand of a `tsquery`: `'a'`, `'a' <2> 'b'`, or `('a' | 'b' <1> 'c') & !('d' | 'e')`. */
function parseOperand(operand: string): Partial<Alternative>[] {
  const [words = '', excluded = ''] = operand.split(' & !');
  return words
    .split(' | ')
    .map((phrase) => ({ terms: readTerms(phrase), without: readTerms(excluded) }));
}

const toTokens = (terms: readonly string[] = []) => terms.map(toToken).filter(Boolean);

function toGroups(groups: readonly Partial<Alternative>[][]): Alternative[][] {
  return groups
    .map((alternatives) =>
      alternatives
        .map(({ terms, without }) => ({ terms: toTokens(terms), without: toTokens(without) }))
        .filter(({ terms }) => terms.length > 0),
    )
    .filter((alternatives) => alternatives.length > 0);
}
