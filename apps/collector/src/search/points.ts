import { type Kysely, sql } from 'kysely';
import { type Static, Type } from 'typebox';
import { problem } from '../errors.ts';
import { selectConverted } from '../money/conversion.ts';
import { choice, nullable } from '../schemas.ts';
import type { Tables } from '../tables.ts';
import { boundingBoxSchema, filterSchemas } from './filter-schemas.ts';
import { listAreas, resolveFilters } from './filters.ts';
import { selectSample } from './sample.ts';
import {
  currencySchema,
  durationSchema,
  MAX_COUNTED_MATCHES,
  optionalQuerySchema,
} from './schemas.ts';

/** Cells of a cluster for each side of a map tile. A tile of 256 pixels has cells of 64 pixels. */
const CELLS_PER_TILE = 4;
/** Number of cells that a request may cover: a large screen has about a thousand. */
const MAX_CELLS = 10_000;

/** Request of `/search/points`. */
export const pointsRequestSchema = Type.Object(
  {
    query: optionalQuerySchema,
    ...filterSchemas,
    bbox: boundingBoxSchema,
    zoom: Type.Integer({
      minimum: 0,
      maximum: 20,
      description:
        'Zoom level of the map. Tiles have 256 pixels, and clusters are 64 pixels apart.',
    }),
  },
  {
    $id: 'PointsRequest',
    additionalProperties: false,
    examples: [{ bbox: [23.8, 49.7, 24.2, 49.95], zoom: 12 }],
  },
);

export type PointsRequest = Static<typeof pointsRequestSchema>;

/** Listings on a map, clustered by the cells of a grid. */
export const pointsResponseSchema = Type.Object(
  {
    points: Type.Array(
      Type.Object({
        latitude: Type.Number(),
        longitude: Type.Number(),
        count: Type.Integer({ description: 'Number of listings.' }),
        listing_id: Type.Optional(
          Type.Integer({ description: 'ID of the listing, if `count` is 1.' }),
        ),
        approximate: Type.Boolean({
          description: 'Whether no listing has coordinates: they are at their district or city.',
        }),
        price_min: nullable(Type.Number({ description: 'Lowest price in `currency`.' })),
      }),
    ),
    total: Type.Object({
      value: Type.Integer(),
      relation: choice(['eq', 'gte'], {
        description: `\`gte\`: only the newest ${MAX_COUNTED_MATCHES} listings are on the map.`,
      }),
    }),
    currency: currencySchema,
    took_ms: durationSchema,
  },
  { $id: 'PointsResponse' },
);

export type PointsResponse = Static<typeof pointsResponseSchema>;

/**
 * Clusters the matches of a search in a bounding box for a zoom level.
 * @throws ProblemError `validation_failed` if a filter is invalid, or the box is too large for the zoom level.
 */
export async function findPoints(
  db: Kysely<Tables>,
  request: PointsRequest,
): Promise<Omit<PointsResponse, 'took_ms'>> {
  const { query, zoom, ...requestedFilters } = request;
  const filters = await resolveFilters(db, requestedFilters, { needsConversion: true });
  const cellCount = CELLS_PER_TILE * 2 ** zoom;
  const [west, south, east, north] = request.bbox;
  const [columns, rows] = [
    ((east - west) / 360) * cellCount,
    projectLatitude(south, cellCount) - projectLatitude(north, cellCount),
  ];
  if ((columns + 1) * (rows + 1) > MAX_CELLS) {
    const message = 'is too high for this bbox: request a smaller box or a lower zoom';
    throw problem('validation_failed', { errors: [{ path: 'body/zoom', message }] });
  }
  const places = new Map(
    listAreas(filters).flatMap((area) => area.places.map((place) => [place.id, place] as const)),
  );
  const placeRows = [...places.values()].map(({ id, latitude, longitude }) => ({
    id,
    latitude,
    longitude,
  }));
  const result = await sql<
    PointsResponse['points'][number] & { listing_id: number; total: number }
  >`
    with sample as materialized (${await selectSample(db, { query, filters })}),
    located as (
      select sample.id, coalesce(sample.latitude, place.latitude) as latitude,
        coalesce(sample.longitude, place.longitude) as longitude, sample.latitude is null as is_approximate,
        ${selectConverted(sql.ref('price'), filters.conversion)} as price
      from sample
      left join jsonb_to_recordset(${JSON.stringify(placeRows)}::jsonb)
        as place (id integer, latitude float8, longitude float8) on place.id = place_path[1]),
    cells as (
      select *, floor((longitude + 180) / 360 * ${cellCount}::float8) as x,
        floor((0.5 - ln(tan(pi() / 4 + radians(greatest(least(latitude, 85), -85)) / 2)) / (2 * pi())) * ${cellCount}::float8) as y
      from located where latitude is not null)
    select avg(latitude)::float8 as latitude, avg(longitude)::float8 as longitude, count(*)::integer as count,
      min(id) as listing_id, bool_and(is_approximate) as approximate, round(min(price)::numeric, 2)::float8 as price_min,
      (select count(*)::integer from sample) as total
    from cells group by x, y order by count(*) desc, x, y`.execute(db);
  const total = result.rows[0]?.total ?? 0;
  return {
    points: result.rows.map(({ total: _total, listing_id, ...point }) => ({
      ...point,
      ...(point.count === 1 && { listing_id }),
    })),
    total: { value: total, relation: total >= MAX_COUNTED_MATCHES ? 'gte' : 'eq' },
    currency: filters.currency,
  };
}

/** Returns the row of a latitude in a Mercator grid with as many rows as columns. */
function projectLatitude(latitude: number, cellCount: number): number {
  const radians = (Math.max(-85, Math.min(85, latitude)) * Math.PI) / 180;
  const mercator = Math.log(Math.tan(Math.PI / 4 + radians / 2));
  return (0.5 - mercator / (2 * Math.PI)) * cellCount;
}
