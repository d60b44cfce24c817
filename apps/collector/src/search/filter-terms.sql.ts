import { expressionBuilder, type Expression, sql, type SqlBool } from 'kysely';
import type { Tables } from '../tables.ts';
import { type RangeColumn, rangesOf, type ValueColumn, valuesOf } from './filters.ts';
import type { SearchFilters } from './schemas.ts';

/** Bands of ids, and blocks of bands, as the function `listing_facets` of the database has them. */
const BAND_IDS = 2 ** 10;
const BLOCK_BANDS = 2 ** 5;

/** More rooms than this are one term. */
const MOST_ROOMS = 10;

/** A price or an area beyond the largest that filters take is in the last step that is asked for. */
const LARGEST = 1e14;

/** Far more than rounding can move a number, and far less than a step is wide. */
const ROUNDING = 1e-9;

/** The terms that the indexes have beside the words: written as there, or they are not used. */
const TERMS = sql`listing_facets(id, deal_type, city_key, property_type, source_slug, price, area_total, rooms)`;

/** The band that an id is in. */
export function bandOf(id: number): number {
  return Math.floor(id / BAND_IDS);
}

/** The lowest id of a band. */
export function firstIdOf(band: number): number {
  return band * BAND_IDS;
}

/**
 * The parts of the table that a search looks through, each of which has an index of words and terms of its
 * own: the live listings, and the archived ones where those are wanted too.
 */
export function partsOf({ include_archived }: SearchFilters): Expression<SqlBool>[] {
  const live = sql<SqlBool>`archived_at is null`;
  return include_archived === true ? [live, sql<SqlBool>`archived_at is not null`] : [live];
}

/**
 * The condition that the filters make within such a part, in the form that its index answers: together they
 * say the same as `matchesFilters`. Ranges are compared once more with their exact limits, in a form (`+ 0`)
 * that keeps the planner from reading an index of prices beside, which would take longer than all the rest.
 */
export function hasFilterTerms(filters: SearchFilters): Expression<SqlBool> {
  const eb = expressionBuilder<Tables, 'property_listings'>();
  const all = exactTerms(filters);
  const conditions: Expression<SqlBool>[] = [];
  if (all.length > 0) conditions.push(sql<SqlBool>`${TERMS} @> ${all}::text[]`);
  for (const any of rangeTerms(filters)) {
    conditions.push(sql<SqlBool>`${TERMS} && ${any}::text[]`);
  }
  for (const { column, min, max } of rangesOf(filters)) {
    const value = sql`${sql.ref(column)} + 0`;
    if (min !== undefined) conditions.push(sql<SqlBool>`${value} >= ${min}`);
    if (max !== undefined) conditions.push(sql<SqlBool>`${value} <= ${max}`);
  }
  return eb.and(conditions);
}

/** Whether a listing is in one of the bands from one to another, both included. */
export function hasBands(bands: { from: number; to: number }): Expression<SqlBool> {
  return sql<SqlBool>`${TERMS} && ${bandTerms(bands)}::text[]`;
}

/** Whether it is in one of the last bands, of which the newest id is in the last one. */
export function hasNewestBands(newestId: Expression<unknown>, count: number): Expression<SqlBool> {
  const last = sql`${newestId} / ${BAND_IDS}::bigint`;
  return sql<SqlBool>`${TERMS} && array(
    select 'band:' || (${last} - nth) from generate_series(0, ${count}::bigint - 1) as nth)`;
}

/** How a term of a column begins. */
const PREFIX_OF = {
  deal_type: 'deal',
  city_key: 'city',
  property_type: 'type',
  source_slug: 'source',
  price: 'price',
  area_total: 'area',
  rooms: 'rooms',
} satisfies Record<ValueColumn | RangeColumn, string>;

/** Those that a listing must have all of. */
function exactTerms(filters: SearchFilters): string[] {
  return valuesOf(filters).map(({ column, value }) => `${PREFIX_OF[column]}:${value}`);
}

/** Lists of terms, of each of which a listing must have one. */
function rangeTerms(filters: SearchFilters): string[][] {
  return rangesOf(filters).map(({ column, min = 0, max = LARGEST }) => {
    const from = placeIn(column, min * (1 - ROUNDING));
    const to = placeIn(column, max * (1 + ROUNDING));
    return named(PREFIX_OF[column], from, to);
  });
}

function placeIn(column: RangeColumn, value: number): number {
  return column === 'rooms' ? Math.min(Math.round(value), MOST_ROOMS) : stepOf(value);
}

/** The step of a price or an area. */
function stepOf(value: number): number {
  return Math.floor(5 * Math.log(value + 1));
}

/** Whole blocks are named as such, so that however many bands there are few names. */
function bandTerms({ from, to }: { from: number; to: number }): string[] {
  const firstBlock = Math.ceil(from / BLOCK_BANDS);
  const endBlock = Math.max(firstBlock, Math.floor((to + 1) / BLOCK_BANDS));
  if (firstBlock === endBlock) return named('band', from, to);
  return [
    ...named('band', from, firstBlock * BLOCK_BANDS - 1),
    ...named('block', firstBlock, endBlock - 1),
    ...named('band', endBlock * BLOCK_BANDS, to),
  ];
}

/** The terms of a kind from one number to another, both included. */
function named(kind: string, from: number, to: number): string[] {
  return Array.from({ length: to - from + 1 }, (_, index) => `${kind}:${from + index}`);
}
