import { createPageQuery, ProblemError } from '@oselya/kit';
import { type Expression, type Kysely, type RawBuilder, sql, type SqlBool } from 'kysely';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { problem } from '../errors.ts';
import { DEAL_TYPES } from '../listing/fields.ts';
import { selectConverted } from '../money/conversion.ts';
import { choice, MAX_ID, nullable } from '../schemas.ts';
import type { Tables } from '../tables.ts';
import { defineSearchCursor } from './cursor.ts';
import { estimateListings } from './estimate.ts';
import { filterSchemas } from './filter-schemas.ts';
import { type ResolvedFilters, resolveFilters, whereFilters, whereFilterTerms } from './filters.ts';
import { hitSchemas, loadHits } from './hits.ts';
import { selectDistanceInCircle } from './area.ts';
import {
  currencySchema,
  cursorSchema,
  DEFAULT_LIMIT,
  durationSchema,
  foldDuplicatesSchema,
  limitSchema,
  MAX_LIMIT,
  MAX_COUNTED_MATCHES,
} from './schemas.ts';

/** Orders in which listings can be browsed. */
export const ORDERS = [
  'newest',
  'price_asc',
  'price_desc',
  'price_per_m2_asc',
  'price_per_m2_desc',
  'area_asc',
  'area_desc',
  'distance',
] as const;
type Order = (typeof ORDERS)[number];

const sortSchema = Type.Optional(
  choice(ORDERS, {
    default: 'newest',
    description:
      'Prices are compared in `currency`. Listings without the value come last. `distance` needs `near`.',
  }),
);

/** Request of `/search/browse`. */
export const browseRequestSchema = Type.Object(
  {
    ...filterSchemas,
    sort: sortSchema,
    limit: limitSchema,
    cursor: cursorSchema,
    fold_duplicates: foldDuplicatesSchema,
  },
  {
    $id: 'BrowseRequest',
    additionalProperties: false,
    examples: [
      { city: 'Львів', deal_type: 'rent', price_max: 15_000, sort: 'price_asc', limit: 3 },
    ],
  },
);

export type BrowseRequest = Static<typeof browseRequestSchema>;

const { near: nearSchema, ...plainFilterSchemas } = filterSchemas;

/** Query parameters of `GET /listings`. */
export const listQuerySchema = Type.Object(
  {
    ...plainFilterSchemas,
    near: Type.Optional(
      Type.String({
        pattern: String.raw`^(-?\d{1,3}(\.\d{1,20})?,){2}\d{1,6}(\.\d{1,20})?$`,
        description: 'Circle around a point: latitude, longitude and radius in metres.',
      }),
    ),
    sort: sortSchema,
    ...createPageQuery({ limit: DEFAULT_LIMIT, maxLimit: MAX_LIMIT }),
  },
  { additionalProperties: false },
);

/** Page of listings in the requested order. */
export const browseResponseSchema = Type.Object(
  {
    items: Type.Array(
      Type.Object({
        ...hitSchemas,
        distance_m: Type.Optional(
          Type.Number({
            description: 'With the order `distance`: metres from the point of `near`.',
          }),
        ),
      }),
    ),
    total: Type.Object({
      value: Type.Integer(),
      relation: choice(['eq', 'gte'], {
        description: `\`gte\`: the number is a lower bound, because no more than ${MAX_COUNTED_MATCHES} are counted. Each duplicate counts.`,
      }),
    }),
    currency: currencySchema,
    next_cursor: nullable(Type.String()),
    took_ms: durationSchema,
  },
  { $id: 'BrowseResponse' },
);

export type BrowseResponse = Static<typeof browseResponseSchema>;

/** Order of listings by a value, which some of them lack. */
type ValueOrder = {
  /** SQL expression of the value; null for listings that come last. */
  value: RawBuilder<number | null>;
  direction: 'asc' | 'desc';
  /** Conditions that split the listings with a value, each with the column by which an index sorts its part. */
  parts: {
    condition: RawBuilder<SqlBool>;
    column: RawBuilder<unknown>;
    /** Value for one unit of the column; undefined if the column is the ID. */
    factor: number | undefined;
  }[];
};

/**
 * The last listing of a page. The value is null among the listings that lack it. Later rates than those of the first page
 * would change the order of the next pages.
 */
const createCursor = defineSearchCursor(
  Type.Object(
    {
      value: nullable(Type.Number()),
      id: Type.Integer({ minimum: 0, maximum: MAX_ID }),
      lastRateDay: Type.Optional(Type.String({ pattern: String.raw`^\d{4}-\d\d-\d\d$` })),
    },
    { additionalProperties: false },
  ),
);
type Position = { value: number | null; id: number };

type FoundListing = Position;

/**
 * Returns a page of the listings that match the filters, in an order and without words. Contract 4, Search.
 * @throws ProblemError `validation_failed` if a filter or the cursor is invalid, or if `distance` lacks `near`.
 */
export async function browse(
  db: Kysely<Tables>,
  request: BrowseRequest,
): Promise<Omit<BrowseResponse, 'took_ms'>> {
  const { sort = 'newest', limit = DEFAULT_LIMIT, cursor: cursorText, ...rest } = request;
  const { fold_duplicates: shouldFold = false, ...requestedFilters } = rest;
  const cursor = createCursor(requestedFilters, 'browse', sort, shouldFold);
  const position = cursor.read(cursorText);
  const needsConversion = sort.startsWith('price');
  const { lastRateDay } = position ?? {};
  const filters = await resolveFilters(db, requestedFilters, { needsConversion, lastRateDay });
  const latestDay = filters.conversion?.latestDay;
  const order = createOrder(sort, filters);
  const { matchCount } = await estimateListings(db, filters);
  const source = createSource(filters, matchCount <= MAX_COUNTED_MATCHES);
  const query = { source, order, filters, shouldFold, position, limit: limit + 1 };
  const { found, total } = await findListings(db, query);
  const page = found.slice(0, limit);
  const last = found.length > limit ? page.at(-1) : undefined;
  const hits = await loadHits(db, page, { ...filters, shouldFold });
  return {
    items: hits.map(({ hit, result }) => ({
      ...result,
      ...(sort === 'distance' && hit.value !== null && { distance_m: Math.round(hit.value) }),
    })),
    total: {
      value: Math.min(total, MAX_COUNTED_MATCHES),
      relation: total > MAX_COUNTED_MATCHES ? 'gte' : 'eq',
    },
    currency: filters.currency,
    next_cursor: last === undefined ? null : cursor.write({ ...last, lastRateDay: latestDay }),
  };
}

/**
 * Returns a page of the listings that match query parameters. Contract 4, Listings.
 * @throws ProblemError `validation_failed`, with the paths of the parameters.
 */
export async function browseByQuery(
  db: Kysely<Tables>,
  { near: nearText, ...request }: Static<typeof listQuerySchema>,
): ReturnType<typeof browse> {
  const near = nearText === undefined ? {} : { near: parseNear(nearText) };
  return browse(db, { ...request, ...near }).catch((error: unknown) => {
    if (!(error instanceof ProblemError) || error.errors === undefined) throw error;
    const errors = error.errors.map(({ path, message }) => ({
      path: path.replace(/^body/, 'querystring'),
      message,
    }));
    throw problem('validation_failed', { errors });
  });
}

function parseNear(text: string): NonNullable<BrowseRequest['near']> {
  const [latitude, longitude, radius_m] = text.split(',').map(Number);
  const near: unknown = { latitude, longitude, radius_m };
  if (Value.Check(nearSchema, near)) return near;
  const message = 'must be a latitude, a longitude and a radius in metres, within their limits';
  throw problem('validation_failed', { errors: [{ path: 'querystring/near', message }] });
}

/** @throws ProblemError `validation_failed` if the order is `distance` and the filters have no point. */
function createOrder(sort: Order, filters: ResolvedFilters): ValueOrder {
  const direction = sort.endsWith('_asc') || sort === 'distance' ? 'asc' : 'desc';
  if (sort.startsWith('price_per_m2'))
    return createPriceOrder(sql`price_per_m2`, direction, filters);
  if (sort.startsWith('price')) return createPriceOrder(sql`price`, direction, filters);
  if (sort === 'newest') return createPlainOrder(sql`id`, direction, undefined);
  if (sort.startsWith('area')) return createPlainOrder(sql`area_total`, direction, 1);
  if (filters.near !== undefined)
    return createPlainOrder(selectDistanceInCircle(filters.near), direction, 1);
  const message = 'needs the filter near: the point from which distances are measured';
  throw problem('validation_failed', { errors: [{ path: 'body/sort', message }] });
}

const createPlainOrder = (
  column: RawBuilder<unknown>,
  direction: ValueOrder['direction'],
  factor: 1 | undefined,
): ValueOrder => ({
  value: sql`${column}::float8`,
  direction,
  parts: [{ condition: sql`${column} is not null`, column, factor }],
});

/**
 * Creates an order by converted price, with one part for each currency and kind of deal: nearly all listings of a currency
 * may have another kind than the requested one.
 */
function createPriceOrder(
  column: RawBuilder<unknown>,
  direction: 'asc' | 'desc',
  { conversion, deal_type: requestedTypes }: ResolvedFilters,
): ValueOrder {
  const dealTypes: ReadonlySet<string | null> = new Set(
    requestedTypes === undefined ? [...DEAL_TYPES, null] : [requestedTypes].flat(),
  );
  return {
    value: selectConverted(column, conversion),
    direction,
    parts: Array.from(conversion?.factors ?? []).flatMap(([currency, { factor }]) =>
      Array.from(dealTypes, (dealType) => ({
        condition: sql<SqlBool>`currency = ${currency} and ${column} is not null
          and ${dealType === null ? sql`deal_type is null` : sql`deal_type = ${dealType}`}`,
        column,
        factor,
      })),
    ),
  };
}

/** Rows to browse: few matches are read at once, many through the index of the order. */
type Source = {
  definition: RawBuilder<unknown>;
  table: RawBuilder<unknown>;
  condition: Expression<SqlBool>;
  count: RawBuilder<number>;
};

function createSource(filters: ResolvedFilters, areFewMatches: boolean): Source {
  const columns = sql`id, deal_type, currency, price, price_per_m2, area_total, latitude, longitude, place_path, duplicate_group`;
  return areFewMatches
    ? {
        definition: sql`matches as materialized (
          select ${columns} from listing_facts where ${whereFilterTerms(filters)})`,
        table: sql`matches`,
        condition: sql<SqlBool>`true`,
        count: sql`(select count(*) from matches)`,
      }
    : {
        definition: sql`counted as materialized (
          select from listing_facts where ${whereFilters(filters)} limit ${MAX_COUNTED_MATCHES + 1})`,
        table: sql`listing_facts`,
        condition: whereFilters(filters),
        count: sql`(select count(*) from counted)`,
      };
}

type BrowseQuery = {
  source: Source;
  order: ValueOrder;
  filters: ResolvedFilters;
  shouldFold: boolean;
  position: Position | undefined;
  limit: number;
};

/** Finds the listings after a position, and counts all matches up to a bound. */
async function findListings(
  db: Kysely<Tables>,
  query: BrowseQuery,
): Promise<{ found: FoundListing[]; total: number }> {
  const { source, order, position, limit } = query;
  const direction = sql.raw(order.direction);
  const isAmongValues = position === undefined || position.value !== null;
  const parts = isAmongValues
    ? order.parts.map((part) => selectPart(query, part, position))
    : [selectWithoutValue(query, position.id)];
  const { rows } = await sql<{ found: [number, number | null][]; total: number }>`
    with ${source.definition},
    found as materialized (
      select * from (${sql.join(parts, sql` union all `)}) as part
      order by value ${direction}, id ${isAmongValues ? direction : sql`desc`} limit ${limit})
    select ${source.count}::integer as total,
      (select coalesce(json_agg(json_build_array(id, value)), '[]') from found) as found`.execute(
    db,
  );
  const found = (rows[0]?.found ?? []).map(([id, value]) => ({ id, value }));
  const total = rows[0]?.total ?? 0;
  if (!isAmongValues || found.length === limit) return { found, total };
  const lastPosition = { value: null, id: MAX_ID };
  const rest = { ...query, position: lastPosition, limit: limit - found.length };
  return { found: [...found, ...(await findListings(db, rest)).found], total };
}

/** Selects the first listings of a part that have a value after the position. */
function selectPart(
  query: BrowseQuery,
  { condition, column, factor }: ValueOrder['parts'][number],
  position: Position | undefined,
): RawBuilder<unknown> {
  const { source, order, filters, shouldFold, limit } = query;
  const { value, direction } = order;
  const comparison = sql.raw(direction === 'asc' ? '>' : '<');
  const bound =
    factor === undefined
      ? position?.id
      : ((position?.value ?? 0) / factor) * (direction === 'asc' ? 1 - 1e-9 : 1 + 1e-9);
  const isAfter =
    position?.value == null
      ? sql`true`
      : // The second condition uses the index. Its bound is wider than any rounding error.
        sql`(${value}, id) ${comparison} (${position.value}::float8, ${position.id}::bigint)
          and ${column} ${comparison}= ${bound}`;
  const isFirst = sql`not exists (
    select from listing_facts where duplicate_group = shown.duplicate_group and ${whereFilters(filters)}
      and (${value}, id) ${sql.raw(direction === 'asc' ? '<' : '>')} (shown.value, shown.id))`;
  return sql`(
    select id, value from (
      select id, duplicate_group, ${value} as value, ${column} as sorted from ${source.table}
      where ${source.condition} and ${condition} and ${isAfter}) as shown
    ${shouldFold ? sql`where ${isFirst}` : sql``}
    order by sorted ${sql.raw(direction)}, id ${sql.raw(direction)} limit ${limit})`;
}

/** Selects the newest listings without a value up to an ID. */
function selectWithoutValue(query: BrowseQuery, lastId: number): RawBuilder<unknown> {
  const { source, order, filters, shouldFold, limit } = query;
  const isFirst = sql`not exists (
    select from listing_facts where duplicate_group = shown.duplicate_group and ${whereFilters(filters)}
      and (${order.value} is not null or id > shown.id))`;
  return sql`(
    select id, null::float8 as value from (
      select id, duplicate_group from ${source.table}
      where ${source.condition} and (${order.value}) is null and id < ${lastId}::bigint) as shown
    ${shouldFold ? sql`where ${isFirst}` : sql``}
    order by id desc limit ${limit})`;
}
