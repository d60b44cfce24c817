import { expressionBuilder, type Expression, sql, type SqlBool } from 'kysely';
import { problem } from '../errors.ts';
import type { Tables } from '../tables.ts';
import { normaliseText, normaliseSpelling } from '../text.ts';
import type { SearchFilters } from './schemas.ts';

const RANGES = [
  ['price', 'price_min', 'price_max'],
  ['rooms', 'rooms_min', 'rooms_max'],
  ['area_total', 'area_min', 'area_max'],
] as const;

type RangeColumn = (typeof RANGES)[number][0];
type ValueColumn = 'deal_type' | 'city_key' | 'property_type' | 'source_slug';

function listRanges(filters: SearchFilters) {
  return RANGES.map(([column, min, max]) => ({
    column,
    min: filters[min],
    max: filters[max],
  })).filter(({ min, max }) => min !== undefined || max !== undefined);
}

/**
 * Returns the exact-match filters by column. City names match in any spelling, and property types are converted to
 * their stored spelling.
 */
function listValues(filters: SearchFilters): [column: ValueColumn, value: string][] {
  const { deal_type, city, property_type, source_slug } = filters;
  const values: Record<ValueColumn, string | undefined> = {
    deal_type,
    city_key: city === undefined ? undefined : normaliseText(city),
    property_type: property_type === undefined ? undefined : normaliseSpelling(property_type),
    source_slug,
  };
  // The keys are those of `values`.
  return Object.entries(values).filter(([, value]) => value !== undefined) as [
    ValueColumn,
    string,
  ][];
}

/**
 * Validates the ranges of the filters.
 * @throws ProblemError `validation_failed` with each lower bound that exceeds its upper bound.
 */
export function validateRanges(filters: SearchFilters): void {
  const errors = RANGES.filter(
    ([, min, max]) => (filters[min] ?? -Infinity) > (filters[max] ?? Infinity),
  ).map(([, min, max]) => ({ path: `body/${min}`, message: `must not be above ${max}` }));
  if (errors.length > 0) throw problem('validation_failed', { errors });
}

/**
 * Returns the SQL condition of the filters on `property_listings`. A listing without a price matches no price range,
 * and likewise for rooms and area. Prices are compared as numbers, regardless of currency. Contract 4, Search.
 */
export function whereFilters(filters: SearchFilters): Expression<SqlBool> {
  const eb = expressionBuilder<Tables, 'property_listings'>();
  const conditions = listValues(filters).map(([column, value]) => eb(column, '=', value));
  for (const { column, min, max } of listRanges(filters)) {
    if (min !== undefined) conditions.push(eb(column, '>=', min));
    if (max !== undefined) conditions.push(eb(column, '<=', max));
  }
  if (filters.include_archived !== true) conditions.push(eb('archived_at', 'is', null));
  return eb.and(conditions);
}

/** Number of IDs per band, and of bands per block. The SQL function `listing_facets` uses the same numbers. */
const BAND_IDS = 2 ** 10;
const BLOCK_BANDS = 2 ** 5;

/** All higher numbers of rooms share one term. */
const MAX_ROOMS = 10;

/** All larger prices and areas share the last step. */
const MAX_STEP_VALUE = 1e14;

/** Tolerance for rounding errors: larger than any rounding error, and much smaller than a step. */
const ROUNDING_TOLERANCE = 1e-9;

/** Filter terms in the search indexes. PostgreSQL uses an index only if this expression equals its definition. */
const FILTER_TERMS = sql`listing_facets(id, deal_type, city_key, property_type, source_slug, price, area_total, rooms)`;

const PREFIXES: Record<ValueColumn | RangeColumn, string> = {
  deal_type: 'deal',
  city_key: 'city',
  property_type: 'type',
  source_slug: 'source',
  price: 'price',
  area_total: 'area',
  rooms: 'rooms',
};

/** Returns the band that contains an ID. */
export function getBand(id: number): number {
  return Math.floor(id / BAND_IDS);
}

/** Returns the lowest ID of a band. */
export function getFirstIdOfBand(band: number): number {
  return band * BAND_IDS;
}

/**
 * Returns the conditions of the index partitions that a search reads: live listings, and archived listings if
 * requested.
 */
export function listPartitions({ include_archived }: SearchFilters): Expression<SqlBool>[] {
  const live = sql<SqlBool>`archived_at is null`;
  return include_archived === true ? [live, sql<SqlBool>`archived_at is not null`] : [live];
}

/**
 * Returns the condition of the filters within an index partition; equivalent to `whereFilters`, but evaluated by the
 * index. Exact bounds are compared with `+ 0`, which keeps the planner from also reading a slow price index.
 */
export function whereFilterTerms(filters: SearchFilters): Expression<SqlBool> {
  const eb = expressionBuilder<Tables, 'property_listings'>();
  const conditions: Expression<SqlBool>[] = [];
  const exact = listValues(filters).map(([column, value]) => `${PREFIXES[column]}:${value}`);
  if (exact.length > 0) conditions.push(sql<SqlBool>`${FILTER_TERMS} @> ${exact}::text[]`);
  for (const { column, min, max } of listRanges(filters)) {
    const from = getStep(column, (min ?? 0) * (1 - ROUNDING_TOLERANCE));
    const to = getStep(column, (max ?? MAX_STEP_VALUE) * (1 + ROUNDING_TOLERANCE));
    conditions.push(
      sql<SqlBool>`${FILTER_TERMS} && ${buildTerms(PREFIXES[column], from, to)}::text[]`,
    );
    const value = sql`${sql.ref(column)} + 0`;
    if (min !== undefined) conditions.push(sql<SqlBool>`${value} >= ${min}`);
    if (max !== undefined) conditions.push(sql<SqlBool>`${value} <= ${max}`);
  }
  return eb.and(conditions);
}

function getStep(column: RangeColumn, value: number): number {
  if (column === 'rooms') return Math.min(Math.round(value), MAX_ROOMS);
  return Math.floor(5 * Math.log(value + 1));
}

/** Returns the condition that a listing is in the bands `from` to `to`, inclusive. */
export function whereInBands({ from, to }: { from: number; to: number }): Expression<SqlBool> {
  // Each whole block has its own term, so a wide window needs few terms.
  const firstBlock = Math.ceil(from / BLOCK_BANDS);
  const endBlock = Math.max(firstBlock, Math.floor((to + 1) / BLOCK_BANDS));
  const all =
    firstBlock === endBlock
      ? buildTerms('band', from, to)
      : [
          ...buildTerms('band', from, firstBlock * BLOCK_BANDS - 1),
          ...buildTerms('block', firstBlock, endBlock - 1),
          ...buildTerms('band', endBlock * BLOCK_BANDS, to),
        ];
  return sql<SqlBool>`${FILTER_TERMS} && ${all}::text[]`;
}

/** Returns the condition that a listing is in the last `count` bands, which end with the band of the newest ID. */
export function whereInNewestBands(
  newestId: Expression<unknown>,
  count: number,
): Expression<SqlBool> {
  const last = sql`${newestId} / ${BAND_IDS}::bigint`;
  return sql<SqlBool>`${FILTER_TERMS} && array(
    select 'band:' || (${last} - nth) from generate_series(0, ${count}::bigint - 1) as nth)`;
}

function buildTerms(kind: string, from: number, to: number): string[] {
  return Array.from({ length: to - from + 1 }, (_, index) => `${kind}:${from + index}`);
}
