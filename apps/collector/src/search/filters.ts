import { expressionBuilder, type Expression, sql, type SqlBool } from 'kysely';
import { problem } from '../errors.ts';
import type { Tables } from '../tables.ts';
import { normalizeText, normalizeSpelling } from '../text.ts';
import type { SearchFilters } from './schemas.ts';

const RANGE_FILTERS = [
  ['price', 'price_min', 'price_max'],
  ['rooms', 'rooms_min', 'rooms_max'],
  ['area_total', 'area_min', 'area_max'],
] as const;

type RangeColumn = (typeof RANGE_FILTERS)[number][0];
type ValueColumn = 'deal_type' | 'city_key' | 'property_type' | 'source_slug';

function listRangeFilters(filters: SearchFilters) {
  return RANGE_FILTERS.map(([column, min, max]) => ({
    column,
    min: filters[min],
    max: filters[max],
  })).filter(({ min, max }) => min !== undefined || max !== undefined);
}

/**
 * Returns the exact-match filters by column. City names match in any spelling, and property types are converted to
 * their stored spelling.
 */
function listValueFilters(filters: SearchFilters): [column: ValueColumn, value: string][] {
  const { deal_type, city, property_type, source_slug } = filters;
  const values: Record<ValueColumn, string | undefined> = {
    deal_type,
    city_key: city === undefined ? undefined : normalizeText(city),
    property_type: property_type === undefined ? undefined : normalizeSpelling(property_type),
    source_slug,
  };
  // The keys are those of `values`.
  return Object.entries(values).filter(([, value]) => value !== undefined) as [
    ValueColumn,
    string,
  ][];
}

/**
 * Validates filter ranges.
 * @throws ProblemError `validation_failed` with each lower bound that exceeds its upper bound.
 */
export function validateRanges(filters: SearchFilters): void {
  const errors = RANGE_FILTERS.filter(
    ([, min, max]) => (filters[min] ?? -Infinity) > (filters[max] ?? Infinity),
  ).map(([, min, max]) => ({ path: `body/${min}`, message: `must not be above ${max}` }));
  if (errors.length > 0) throw problem('validation_failed', { errors });
}

/**
 * Returns the SQL condition of the filters on `property_listings`. A listing without a price matches no price range,
 * and the same applies to rooms and area. Prices are compared as numbers, regardless of currency. Archived listings
 * match only with `include_archived`. Contract 4, Search.
 */
export function whereFilters(filters: SearchFilters): Expression<SqlBool> {
  const eb = expressionBuilder<Tables, 'property_listings'>();
  const conditions = listValueFilters(filters).map(([column, value]) => eb(column, '=', value));
  for (const { column, min, max } of listRangeFilters(filters)) {
    if (min !== undefined) conditions.push(eb(column, '>=', min));
    if (max !== undefined) conditions.push(eb(column, '<=', max));
  }
  if (filters.include_archived !== true) conditions.push(eb('archived_at', 'is', null));
  return eb.and(conditions);
}

/** Sizes of bands and blocks. The SQL function `listing_facets` uses the same numbers. */
const IDS_PER_BAND = 2 ** 10;
const BANDS_PER_BLOCK = 2 ** 5;

/** Room count that shares one term with all higher counts. */
const MAX_INDEXED_ROOMS = 10;

/** Upper bound of stored prices and areas, for ranges without a maximum. */
const MAX_INDEXED_AMOUNT = 1e14;

/** Relative tolerance, larger than any rounding error of a logarithm, and much smaller than a step. */
const ROUNDING_TOLERANCE = 1e-9;

/** Filter terms in the search indexes. PostgreSQL uses an index only if this expression equals the indexed one. */
const FILTER_TERMS = sql`listing_facets(id, deal_type, city_key, property_type, source_slug, price, area_total, rooms)`;

const TERM_PREFIXES: Record<ValueColumn | RangeColumn, string> = {
  deal_type: 'deal',
  city_key: 'city',
  property_type: 'type',
  source_slug: 'source',
  price: 'price',
  area_total: 'area',
  rooms: 'rooms',
};

/** Returns the band of a listing: listings with adjacent IDs share a term in the search indexes. */
export function getBand(id: number): number {
  return Math.floor(id / IDS_PER_BAND);
}

/** Returns the lowest listing ID in a band. */
export function getFirstIdOfBand(band: number): number {
  return band * IDS_PER_BAND;
}

/**
 * Returns the conditions of the partial indexes that a search reads: live listings, and archived listings if
 * requested.
 */
export function listIndexConditions(filters: SearchFilters): Expression<SqlBool>[] {
  const liveCondition = sql<SqlBool>`archived_at is null`;
  return filters.include_archived === true
    ? [liveCondition, sql<SqlBool>`archived_at is not null`]
    : [liveCondition];
}

/**
 * Returns the condition of the filters within a partial index; equivalent to `whereFilters`, but with terms that the
 * index evaluates. Exact bounds are compared with `+ 0`, which keeps the planner from also reading a slow price index.
 */
export function whereFilterTerms(filters: SearchFilters): Expression<SqlBool> {
  const eb = expressionBuilder<Tables, 'property_listings'>();
  const conditions: Expression<SqlBool>[] = [];
  const valueTerms = listValueFilters(filters).map(
    ([column, value]) => `${TERM_PREFIXES[column]}:${value}`,
  );
  if (valueTerms.length > 0)
    conditions.push(sql<SqlBool>`${FILTER_TERMS} @> ${valueTerms}::text[]`);
  for (const { column, min, max } of listRangeFilters(filters)) {
    const firstStep = computeStep(column, (min ?? 0) * (1 - ROUNDING_TOLERANCE));
    const lastStep = computeStep(column, (max ?? MAX_INDEXED_AMOUNT) * (1 + ROUNDING_TOLERANCE));
    conditions.push(
      sql<SqlBool>`${FILTER_TERMS} && ${buildTerms(TERM_PREFIXES[column], firstStep, lastStep)}::text[]`,
    );
    const value = sql`${sql.ref(column)} + 0`;
    if (min !== undefined) conditions.push(sql<SqlBool>`${value} >= ${min}`);
    if (max !== undefined) conditions.push(sql<SqlBool>`${value} <= ${max}`);
  }
  return eb.and(conditions);
}

function computeStep(column: RangeColumn, value: number): number {
  if (column === 'rooms') return Math.min(Math.round(value), MAX_INDEXED_ROOMS);
  return Math.floor(5 * Math.log(value + 1));
}

/** Returns the condition that a listing is in one of the bands, including both ends. */
export function whereInBands(firstBand: number, lastBand: number): Expression<SqlBool> {
  // Each whole block has one term, so a wide range needs few terms.
  const firstBlock = Math.ceil(firstBand / BANDS_PER_BLOCK);
  const endBlock = Math.max(firstBlock, Math.floor((lastBand + 1) / BANDS_PER_BLOCK));
  const terms =
    firstBlock === endBlock
      ? buildTerms('band', firstBand, lastBand)
      : [
          ...buildTerms('band', firstBand, firstBlock * BANDS_PER_BLOCK - 1),
          ...buildTerms('block', firstBlock, endBlock - 1),
          ...buildTerms('band', endBlock * BANDS_PER_BLOCK, lastBand),
        ];
  return sql<SqlBool>`${FILTER_TERMS} && ${terms}::text[]`;
}

/** Returns the condition that a listing is in one of the `count` newest bands. */
export function whereInNewestBands(
  newestId: Expression<unknown>,
  count: number,
): Expression<SqlBool> {
  const newestBand = sql`${newestId} / ${IDS_PER_BAND}::bigint`;
  return sql<SqlBool>`${FILTER_TERMS} && array(
    select 'band:' || (${newestBand} - age) from generate_series(0, ${count}::bigint - 1) as age)`;
}

function buildTerms(prefix: string, from: number, to: number): string[] {
  return Array.from({ length: to - from + 1 }, (_, index) => `${prefix}:${from + index}`);
}
