import { expressionBuilder, type Expression, type Kysely, sql, type SqlBool } from 'kysely';
import { problem } from '../errors.ts';
import { parseTime } from '../ingest/payload.ts';
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
import type { SearchFilters } from './filter-schemas.ts';
import { type Area, createBox, createCircle, whereInArea } from './area.ts';

/** Filters with a search's resolved property types and currency. A price filter needs a conversion. */
export type ResolvedFilters = Omit<SearchFilters, 'property_type'> & {
  property_type?: string[] | undefined;
  conversion?: Conversion | undefined;
};

const PRICE_FILTERS = [
  ['price', 'price_min', 'price_max'],
  ['price_per_m2', 'price_per_m2_min', 'price_per_m2_max'],
] as const;
const RANGE_FILTERS = [
  ['rooms', 'rooms_min', 'rooms_max'],
  ['area_total', 'area_min', 'area_max'],
  ['floor', 'floor_min', 'floor_max'],
] as const;

type RangeColumn = 'rooms' | 'area_total' | 'price';
type ValueColumn = 'deal_type' | 'property_type' | 'source_slug';
type KeyColumn = 'city_key' | 'district_key';
type Bounds = { min: number | undefined; max: number | undefined };

type BoundName = (typeof PRICE_FILTERS | typeof RANGE_FILTERS)[number][1 | 2];

function listRangeFilters<Column extends string>(
  ranges: readonly (readonly [column: Column, min: BoundName, max: BoundName])[],
  filters: ResolvedFilters,
): (Bounds & { column: Column })[] {
  return ranges
    .map(([column, min, max]) => ({ column, min: filters[min], max: filters[max] }))
    .filter(({ min, max }) => min !== undefined || max !== undefined);
}

/** Returns the alternative values of each exact-match filter by column. */
function listValueFilters(filters: ResolvedFilters): [column: ValueColumn, values: string[]][] {
  const { deal_type, property_type, source_slug } = filters;
  return (
    [
      ['deal_type', deal_type],
      ['property_type', property_type],
      ['source_slug', source_slug],
    ] as const
  ).flatMap(([column, value]) => (value === undefined ? [] : [[column, [value].flat()]]));
}

/** Places that a filter names, and the normalized names by which listings without a known place are found. */
type PlaceFilter = { placeIds: number[]; keyColumn: KeyColumn | undefined; keys: string[] };

const PLACE_FILTERS = [
  ['city', 'city_key', findFilterCities],
  ['district', 'district_key', findFilterDistricts],
  ['region', undefined, findFilterRegions],
] as const;

/** Returns the filters by place. Each has alternative values, and names match in any spelling. */
function listPlaceFilters(filters: ResolvedFilters): PlaceFilter[] {
  const { place_ids: placeIds } = filters;
  const filtersByName = PLACE_FILTERS.flatMap(([name, keyColumn, findPlaces]) => {
    const value = filters[name];
    if (value === undefined) return [];
    const names = [value].flat();
    const ids = new Set(names.flatMap(findPlaces).map(({ id }) => id));
    // Listings have the full name until the upkeep has resolved their place.
    const keys = names.flatMap((placeName) => [
      createPlaceKey(placeName),
      normalizeText(placeName),
    ]);
    return [{ placeIds: [...ids], keyColumn, keys: [...new Set(keys)] }];
  });
  return placeIds === undefined
    ? filtersByName
    : [...filtersByName, { placeIds, keyColumn: undefined, keys: [] }];
}

/**
 * Resolves the property types and the currency of filters.
 * @param options.lastRateDay Excludes rates of later days.
 * @throws ProblemError `validation_failed` with each empty range, an unknown property type, or a currency without a rate.
 */
export async function resolveFilters(
  db: Kysely<Tables>,
  filters: SearchFilters,
  {
    needsConversion = false,
    lastRateDay,
  }: { needsConversion?: boolean; lastRateDay?: string | undefined } = {},
): Promise<ResolvedFilters & { currency: string }> {
  const errors = listRangeErrors(filters);
  const types = filters.property_type === undefined ? [] : [filters.property_type].flat();
  const propertyTypes = types.map(findPropertyType);
  if (propertyTypes.includes(undefined)) {
    const message = `must be ${PROPERTY_TYPES.join(', ')}, or a word for one of them`;
    errors.push({ path: 'body/property_type', message });
  }
  if (errors.length > 0) throw problem('validation_failed', { errors });
  const { currency = getDefaultCurrency(filters.deal_type) } = filters;
  const isConverted =
    needsConversion ||
    filters.currency !== undefined ||
    listRangeFilters(PRICE_FILTERS, { ...filters, property_type: undefined }).length > 0;
  const path = filters.currency === undefined ? undefined : 'body/currency';
  return {
    ...filters,
    currency,
    property_type:
      types.length === 0 ? undefined : propertyTypes.filter((type) => type !== undefined),
    ...(isConverted && { conversion: await readConversion(db, currency, path, lastRateDay) }),
  };
}

function listRangeErrors(filters: SearchFilters): { path: string; message: string }[] {
  const ranges = [...PRICE_FILTERS, ...RANGE_FILTERS].map(
    ([, min, max]) => [min, max, filters[min], filters[max]] as const,
  );
  const rangeErrors = ranges
    .filter(([, , from, to]) => (from ?? -Infinity) > (to ?? Infinity))
    .map(([min, max]) => ({ path: `body/${min}`, message: `must not be above ${max}` }));
  return [...rangeErrors, ...(filters.bbox === undefined ? [] : listBoxErrors(filters.bbox))];
}

function listBoxErrors([west, south, east, north]: NonNullable<SearchFilters['bbox']>) {
  const violations: [isViolated: boolean, index: number, message: string][] = [
    [west > east, 0, 'must not be above the east: bbox is west, south, east, north'],
    [Math.abs(south) > 90, 1, 'must be a latitude from -90 to 90'],
    [south > north, 1, 'must not be above the north: bbox is west, south, east, north'],
    [Math.abs(north) > 90, 3, 'must be a latitude from -90 to 90'],
  ];
  return violations
    .filter(([isViolated]) => isViolated)
    .map(([, index, message]) => ({ path: `body/bbox/${index}`, message }));
}

/**
 * Returns the SQL condition of the filters on `listing_index`. A listing without a price, or in a currency without a
 * rate, matches no price range, and the same applies to the other ranges. Contract 4, Search.
 */
export function whereFilters(filters: ResolvedFilters): Expression<SqlBool> {
  const eb = expressionBuilder<Tables, 'listing_index'>();
  const conditions = [
    ...listValueFilters(filters).map(([column, values]) => eb(column, 'in', values)),
    ...listPriceConditions(filters, sql.ref('price')),
    ...listOtherConditions(filters, isInAnyPlace),
  ];
  for (const { placeIds, keyColumn, keys } of listPlaceFilters(filters)) {
    conditions.push(
      eb.or([
        ...(keyColumn === undefined ? [] : [eb(keyColumn, 'in', keys)]),
        // A condition that no row meets would hide better plans.
        ...(placeIds.length === 0 ? [] : [isInAnyPlace(placeIds)]),
      ]),
    );
  }
  for (const { column, min, max } of listRangeFilters(RANGE_FILTERS, filters)) {
    if (min !== undefined) conditions.push(eb(column, '>=', min));
    if (max !== undefined) conditions.push(eb(column, '<=', max));
  }
  if (filters.include_archived !== true) conditions.push(sql<SqlBool>`is_live`);
  return eb.and(conditions);
}

const isInAnyPlace = (placeIds: number[]) => sql<SqlBool>`place_path && ${placeIds}::integer[]`;

/** Returns the conditions of the filters that have no terms in the index. */
function listOtherConditions(
  filters: ResolvedFilters,
  isInPlaces: (placeIds: number[]) => Expression<SqlBool>,
): Expression<SqlBool>[] {
  const { not_first_floor, not_last_floor, features, has_images } = filters;
  const { price_dropped_since: droppedSince, first_seen_since: seenSince } = filters;
  const conditions: (Expression<SqlBool> | false | undefined)[] = [
    not_first_floor === true && sql`floor > 1`,
    not_last_floor === true && sql`floor < floors_total`,
    features && sql`features @> ${features.map((feature) => feature.trim().toLowerCase())}::text[]`,
    has_images !== undefined && sql`(image_count > 0) = ${has_images}`,
    droppedSince !== undefined &&
      sql`price_changed_at >= ${parseTime(droppedSince)} and price < price_before`,
    seenSince !== undefined && sql`created_at >= ${parseTime(seenSince)}`,
    ...listAreas(filters).map((area) => whereInArea(area, isInPlaces)),
  ];
  return conditions.filter((condition) => condition !== false && condition !== undefined);
}

/** Returns the areas of the filters by coordinates. */
export function listAreas({ bbox, near }: ResolvedFilters): Area[] {
  return [
    ...(bbox === undefined ? [] : [createBox(bbox)]),
    ...(near === undefined ? [] : [createCircle(near)]),
  ];
}

/** Returns the condition of each price filter, which compares each currency with its own bounds. */
function listPriceConditions(
  filters: ResolvedFilters,
  price: Expression<unknown>,
): Expression<SqlBool>[] {
  const eb = expressionBuilder<Tables, 'listing_index'>();
  return listRangeFilters(PRICE_FILTERS, filters).map(({ column, ...range }) => {
    const amount = column === 'price' ? price : sql.ref('price_per_m2');
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

/** Sizes of bands and blocks. The SQL function `listing_index_terms` uses the same numbers. */
const IDS_PER_BAND = 2 ** 10;
const BANDS_PER_BLOCK = 2 ** 5;

/** Room count that shares one term with all higher counts. */
const MAX_INDEXED_ROOMS = 10;

/** Upper bound of stored prices and areas, for ranges without a maximum. */
const MAX_INDEXED_AMOUNT = 1e14;

/** Relative tolerance, larger than any rounding error of a logarithm, and much smaller than a step. */
const ROUNDING_TOLERANCE = 1e-9;

/** Filter terms in the search index. PostgreSQL uses the index only if this expression equals the indexed one. */
const FILTER_TERMS = sql`listing_index_terms(id, is_live, deal_type, city_key, district_key, property_type, source_slug, price, area_total, rooms, place_path)`;

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

const hasAnyTerm = (terms: readonly string[]) => sql<SqlBool>`${FILTER_TERMS} && ${terms}::text[]`;

/** Returns the ID of the first listing in the band of a listing. Listings with adjacent IDs share a band. */
export const getBandStart = (id: number): number => Math.floor(id / IDS_PER_BAND) * IDS_PER_BAND;

/**
 * Returns the condition of the filters by terms of the search index; equivalent to `whereFilters`. Exact bounds are
 * compared with `+ 0`, which keeps the planner from also reading a slow price index.
 */
export function whereFilterTerms(filters: ResolvedFilters): Expression<SqlBool> {
  const eb = expressionBuilder<Tables, 'listing_index'>();
  const conditions = [
    ...listPriceConditions(filters, sql`price + 0`),
    ...listOtherConditions(filters, (placeIds) => hasAnyTerm(placeIds.map((id) => `place:${id}`))),
    ...listValueFilters(filters).map(([column, values]) =>
      hasAnyTerm(values.map((value) => `${TERM_PREFIXES[column]}:${value}`)),
    ),
  ];
  if (filters.include_archived !== true) {
    conditions.push(hasAnyTerm(['live']));
    // The partial indexes of coordinates and times need the condition itself.
    if (filters.bbox ?? filters.near ?? filters.first_seen_since) conditions.push(sql`is_live`);
  }
  for (const { placeIds, keyColumn, keys } of listPlaceFilters(filters)) {
    const keyTerms =
      keyColumn === undefined ? [] : keys.map((key) => `${TERM_PREFIXES[keyColumn]}:${key}`);
    conditions.push(hasAnyTerm([...keyTerms, ...placeIds.map((id) => `place:${id}`)]));
  }
  const { price_min, price_max, conversion } = filters;
  if (conversion !== undefined && (price_min !== undefined || price_max !== undefined)) {
    const bounds = convertBounds(conversion, { min: price_min, max: price_max });
    conditions.push(
      hasAnyTerm([...new Set(bounds.flatMap((range) => buildRangeTerms('price', range)))]),
    );
  }
  for (const { column, min, max } of listRangeFilters(RANGE_FILTERS, filters)) {
    if (column !== 'floor') conditions.push(hasAnyTerm(buildRangeTerms(column, { min, max })));
    const value = sql`${sql.ref(column)} + 0`;
    if (min !== undefined) conditions.push(sql<SqlBool>`${value} >= ${min}`);
    if (max !== undefined) conditions.push(sql<SqlBool>`${value} <= ${max}`);
  }
  return eb.and(conditions);
}

function buildRangeTerms(
  column: RangeColumn,
  { min = 0, max = MAX_INDEXED_AMOUNT }: Bounds,
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

/** Range of IDs, including both ends. The first is the start of a band (`getBandStart`). */
export type IdRange = { firstId: number; lastId: number };

/** Number of terms above which an index reads a range of IDs no faster by terms. */
const MAX_RANGE_TERMS = 2000;

/** Returns the condition that a listing may have an ID of the range, by terms of the search index. */
export function whereIdTerms({ firstId, lastId }: IdRange): Expression<SqlBool> {
  if (lastId - firstId > MAX_RANGE_TERMS * BANDS_PER_BLOCK * IDS_PER_BAND)
    return sql<SqlBool>`true`;
  const [firstBand, lastBand] = [
    Math.floor(firstId / IDS_PER_BAND),
    Math.floor(lastId / IDS_PER_BAND),
  ];
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
  return hasAnyTerm(terms);
}

function buildTerms(prefix: string, from: number, to: number): string[] {
  return Array.from({ length: to - from + 1 }, (_, index) => `${prefix}:${from + index}`);
}
