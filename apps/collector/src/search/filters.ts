import { expressionBuilder, type Expression, type Kysely, sql, type SqlBool } from 'kysely';
import { problem } from '../errors.ts';
import { findPropertyType, PROPERTY_TYPES } from '../listing/property-types.ts';
import {
  type Conversion,
  convertBounds,
  getDefaultCurrency,
  readConversion,
} from '../money/conversion.ts';
import {
  createPlaceKey,
  findFilterCities,
  findFilterDistricts,
  findFilterRegions,
} from '../places/gazetteer.ts';
import type { Tables } from '../tables.ts';
import { normalizeText } from '../text.ts';
import type { SearchFilters } from './schemas.ts';

/** Filters with a search's resolved property type and currency. A price filter needs a conversion. */
export type ResolvedFilters = SearchFilters & { conversion?: Conversion | undefined };

const PRICE_FILTERS = [
  ['price', 'price_min', 'price_max'],
  ['price_per_m2', 'price_per_m2_min', 'price_per_m2_max'],
] as const;
const RANGE_FILTERS = [
  ['rooms', 'rooms_min', 'rooms_max'],
  ['area_total', 'area_min', 'area_max'],
] as const;

type RangeColumn = (typeof RANGE_FILTERS)[number][0] | 'price';
type ValueColumn = 'deal_type' | 'property_type' | 'source_slug';
type KeyColumn = 'city_key' | 'district_key';

type BoundName = (typeof PRICE_FILTERS | typeof RANGE_FILTERS)[number][1 | 2];

function listRangeFilters<Column extends string>(
  ranges: readonly (readonly [column: Column, min: BoundName, max: BoundName])[],
  filters: SearchFilters,
) {
  return ranges
    .map(([column, min, max]) => ({ column, min: filters[min], max: filters[max] }))
    .filter(({ min, max }) => min !== undefined || max !== undefined);
}

/** Returns the exact-match filters by column. */
function listValueFilters(filters: SearchFilters): [column: ValueColumn, value: string][] {
  const { deal_type, property_type, source_slug } = filters;
  const values: Record<ValueColumn, string | undefined> = {
    deal_type,
    property_type,
    source_slug,
  };
  // The keys are those of `values`.
  return Object.entries(values).filter(([, value]) => value !== undefined) as [
    ValueColumn,
    string,
  ][];
}

/** Places that a filter names, and the normalized names by which listings without a known place are found. */
type PlaceFilter = { placeIds: number[]; keyColumn: KeyColumn | undefined; keys: string[] };

const PLACE_FILTERS = [
  ['city', 'city_key', findFilterCities],
  ['district', 'district_key', findFilterDistricts],
  ['region', undefined, findFilterRegions],
] as const;

/** Returns the filters by place. Each has alternative values, and names match in any spelling. */
function listPlaceFilters(filters: SearchFilters): PlaceFilter[] {
  return PLACE_FILTERS.flatMap(([name, keyColumn, findPlaces]) => {
    const value = filters[name];
    if (value === undefined) return [];
    const names = [value].flat();
    const placeIds = new Set(names.flatMap(findPlaces).map(({ id }) => id));
    // Listings have the full name until the upkeep has resolved their place.
    const keys = names.flatMap((placeName) => [
      createPlaceKey(placeName),
      normalizeText(placeName),
    ]);
    return [{ placeIds: [...placeIds], keyColumn, keys: [...new Set(keys)] }];
  });
}

/**
 * Resolves the property type and the currency of filters.
 * @throws ProblemError `validation_failed` with each empty range, an unknown property type, or a currency without a rate.
 */
export async function resolveFilters(
  db: Kysely<Tables>,
  filters: SearchFilters,
): Promise<ResolvedFilters & { currency: string }> {
  const errors = [...PRICE_FILTERS, ...RANGE_FILTERS]
    .filter(([, min, max]) => (filters[min] ?? -Infinity) > (filters[max] ?? Infinity))
    .map(([, min, max]) => ({ path: `body/${min}`, message: `must not be above ${max}` }));
  const propertyType =
    filters.property_type === undefined ? undefined : findPropertyType(filters.property_type);
  if (filters.property_type !== undefined && propertyType === undefined) {
    const message = `must be ${PROPERTY_TYPES.join(', ')}, or a word for one of them`;
    errors.push({ path: 'body/property_type', message });
  }
  if (errors.length > 0) throw problem('validation_failed', { errors });
  const { currency = getDefaultCurrency(filters.deal_type) } = filters;
  const isConverted =
    filters.currency !== undefined || listRangeFilters(PRICE_FILTERS, filters).length > 0;
  const path = filters.currency === undefined ? undefined : 'body/currency';
  return {
    ...filters,
    currency,
    ...(propertyType !== undefined && { property_type: propertyType }),
    ...(isConverted && { conversion: await readConversion(db, currency, path) }),
  };
}

/**
 * Returns the SQL condition of the filters on `property_listings`. A listing without a price, or in a currency without a
 * rate, matches no price range, and the same applies to rooms and area. Contract 4, Search.
 */
export function whereFilters(filters: ResolvedFilters): Expression<SqlBool> {
  const eb = expressionBuilder<Tables, 'property_listings'>();
  const conditions: Expression<SqlBool>[] = [
    ...listValueFilters(filters).map(([column, value]) => eb(column, '=', value)),
    ...listPriceConditions(filters, sql.ref('price')),
  ];
  for (const { placeIds, keyColumn, keys } of listPlaceFilters(filters)) {
    const isInPlace = sql<SqlBool>`place_path && ${placeIds}::integer[]`;
    conditions.push(
      eb.or([
        ...(keyColumn === undefined ? [] : [eb(keyColumn, 'in', keys)]),
        // A condition that no row meets would hide better plans.
        ...(placeIds.length === 0 ? [] : [isInPlace]),
      ]),
    );
  }
  for (const { column, min, max } of listRangeFilters(RANGE_FILTERS, filters)) {
    if (min !== undefined) conditions.push(eb(column, '>=', min));
    if (max !== undefined) conditions.push(eb(column, '<=', max));
  }
  if (filters.include_archived !== true) conditions.push(eb('archived_at', 'is', null));
  return eb.and(conditions);
}

/** Returns the condition of each price filter, which compares each currency with its own bounds. */
function listPriceConditions(
  filters: ResolvedFilters,
  price: Expression<unknown>,
): Expression<SqlBool>[] {
  const eb = expressionBuilder<Tables, 'property_listings'>();
  return listRangeFilters(PRICE_FILTERS, filters).map(({ column, ...range }) => {
    const amount =
      column === 'price'
        ? price
        : sql`coalesce(price_per_m2, round(price / nullif(area_total, 0), 2))`;
    const bounds = filters.conversion === undefined ? [] : convertBounds(filters.conversion, range);
    return eb.or(
      bounds.map(({ currency, min, max }) => {
        const conditions: Expression<SqlBool>[] = [eb('currency', '=', currency)];
        if (min !== undefined) conditions.push(sql<SqlBool>`${amount} >= ${min}`);
        if (max !== undefined) conditions.push(sql<SqlBool>`${amount} <= ${max}`);
        return eb.and(conditions);
      }),
    );
  });
}

/** Sizes of bands and blocks. The SQL function `listing_terms` uses the same numbers. */
const IDS_PER_BAND = 2 ** 10;
const BANDS_PER_BLOCK = 2 ** 5;

/** Room count that shares one term with all higher counts. */
const MAX_INDEXED_ROOMS = 10;

/** Upper bound of stored prices and areas, for ranges without a maximum. */
const MAX_INDEXED_AMOUNT = 1e14;

/** Relative tolerance, larger than any rounding error of a logarithm, and much smaller than a step. */
const ROUNDING_TOLERANCE = 1e-9;

/** Filter terms in the search indexes. PostgreSQL uses an index only if this expression equals the indexed one. */
const FILTER_TERMS = sql`listing_terms(id, deal_type, city_key, district_key, property_type, source_slug, price, area_total, rooms, place_path)`;

const TERM_PREFIXES: Record<ValueColumn | KeyColumn | RangeColumn, string> = {
  deal_type: 'deal',
  city_key: 'city',
  district_key: 'district',
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
export function whereFilterTerms(filters: ResolvedFilters): Expression<SqlBool> {
  const eb = expressionBuilder<Tables, 'property_listings'>();
  const conditions: Expression<SqlBool>[] = [];
  const valueTerms = listValueFilters(filters).map(
    ([column, value]) => `${TERM_PREFIXES[column]}:${value}`,
  );
  if (valueTerms.length > 0)
    conditions.push(sql<SqlBool>`${FILTER_TERMS} @> ${valueTerms}::text[]`);
  for (const { placeIds, keyColumn, keys } of listPlaceFilters(filters)) {
    const keyTerms =
      keyColumn === undefined ? [] : keys.map((key) => `${TERM_PREFIXES[keyColumn]}:${key}`);
    const terms = [...keyTerms, ...placeIds.map((id) => `place:${id}`)];
    conditions.push(sql<SqlBool>`${FILTER_TERMS} && ${terms}::text[]`);
  }
  const { price_min, price_max, conversion } = filters;
  if (conversion !== undefined && (price_min !== undefined || price_max !== undefined)) {
    const bounds = convertBounds(conversion, { min: price_min, max: price_max });
    const terms = new Set(bounds.flatMap((range) => buildRangeTerms('price', range)));
    conditions.push(sql<SqlBool>`${FILTER_TERMS} && ${[...terms]}::text[]`);
  }
  conditions.push(...listPriceConditions(filters, sql`price + 0`));
  for (const { column, min, max } of listRangeFilters(RANGE_FILTERS, filters)) {
    const terms = buildRangeTerms(column, { min, max });
    conditions.push(sql<SqlBool>`${FILTER_TERMS} && ${terms}::text[]`);
    const value = sql`${sql.ref(column)} + 0`;
    if (min !== undefined) conditions.push(sql<SqlBool>`${value} >= ${min}`);
    if (max !== undefined) conditions.push(sql<SqlBool>`${value} <= ${max}`);
  }
  return eb.and(conditions);
}

function buildRangeTerms(
  column: RangeColumn,
  { min = 0, max = MAX_INDEXED_AMOUNT }: { min: number | undefined; max: number | undefined },
): string[] {
  const firstStep = computeStep(column, Math.max(0, min) * (1 - ROUNDING_TOLERANCE));
  const lastStep = computeStep(
    column,
    Math.min(Math.max(0, max), MAX_INDEXED_AMOUNT) * (1 + ROUNDING_TOLERANCE),
  );
  return buildTerms(TERM_PREFIXES[column], firstStep, lastStep);
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
