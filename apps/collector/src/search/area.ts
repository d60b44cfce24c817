import { type Expression, type RawBuilder, sql, type SqlBool } from 'kysely';
import { listCitiesAndDistricts, type Place } from '../places/gazetteer.ts';
import type { SearchFilters } from './filter-schemas.ts';

type Coordinates = { latitude: number; longitude: number };

type Box = NonNullable<SearchFilters['bbox']>;

/** Area on the map, with its bounding box, and its cities and districts: listings without coordinates are there. */
export type Area = {
  box: Box;
  circle?: NonNullable<SearchFilters['near']>;
  places: readonly Place[];
};

const EARTH_RADIUS_M = 6_371_009;
const METRES_PER_DEGREE = (Math.PI / 180) * EARTH_RADIUS_M;

/** Returns the area of a bounding box. */
export function createBox(box: Box): Area {
  return { box, places: listCitiesAndDistricts((place) => isInBox(place, box)) };
}

const isInBox = ({ latitude, longitude }: Coordinates, [west, south, east, north]: Box) =>
  latitude >= south && latitude <= north && longitude >= west && longitude <= east;

/** Returns the area of a circle, whose bounding box an index can read. */
export function createCircle(circle: NonNullable<Area['circle']>): Area {
  const { latitude, longitude, radius_m: radius } = circle;
  const latitudeSpan = radius / METRES_PER_DEGREE;
  const cosine = Math.cos((Math.min(89, Math.abs(latitude) + latitudeSpan) * Math.PI) / 180);
  const longitudeSpan = latitudeSpan / cosine;
  const box: Box = [
    longitude - longitudeSpan,
    latitude - latitudeSpan,
    longitude + longitudeSpan,
    latitude + latitudeSpan,
  ];
  const isNear = (place: Place) => computeDistance(place, circle) <= radius;
  return { box, circle, places: listCitiesAndDistricts(isNear) };
}

/** Computes the great-circle distance in metres. */
export function computeDistance(a: Coordinates, b: Coordinates): number {
  const [latitudeA, latitudeB, dLatitude, dLongitude] = [
    a.latitude,
    b.latitude,
    b.latitude - a.latitude,
    b.longitude - a.longitude,
  ].map((degrees) => (degrees * Math.PI) / 180) as [number, number, number, number];
  const haversine =
    Math.sin(dLatitude / 2) ** 2 +
    Math.cos(latitudeA) * Math.cos(latitudeB) * Math.sin(dLongitude / 2) ** 2;
  return 2 * EARTH_RADIUS_M * Math.asin(Math.min(1, Math.sqrt(haversine)));
}

/** Returns the SQL expression of the distance in metres from the coordinates of a row to a point. */
export function selectDistance(point: Coordinates): RawBuilder<number> {
  return sql<number>`(2 * ${EARTH_RADIUS_M}::float8 * asin(least(1, sqrt(
    sin(radians(latitude - ${point.latitude}) / 2) ^ 2 + cos(radians(latitude)) * cos(radians(${point.latitude}))
      * sin(radians(longitude - ${point.longitude}) / 2) ^ 2))))`;
}

/** Returns the SQL expression of the distance in metres of a listing in a circle from its centre. */
export function selectDistanceInCircle(circle: NonNullable<Area['circle']>): RawBuilder<number> {
  const distances = createCircle(circle).places.map((place) => [
    place.id,
    computeDistance(place, circle),
  ]);
  return sql<number>`(case when latitude is null
    then (${JSON.stringify(Object.fromEntries(distances))}::jsonb ->> place_path[1]::text)::float8
    else ${selectDistance(circle)} end)`;
}

/**
 * Returns the condition that a listing is in an area.
 * @param isInPlaces Returns the condition that a listing is in one of some places, by an index.
 */
export function whereInArea(
  { box, circle, places }: Area,
  isInPlaces: (placeIds: number[]) => Expression<SqlBool>,
): RawBuilder<SqlBool> {
  const [west, south, east, north] = box;
  const isInCircle =
    circle === undefined ? sql`true` : sql`${selectDistance(circle)} <= ${circle.radius_m}`;
  const hasCoordinatesInside = sql<SqlBool>`latitude between ${south} and ${north}
    and longitude between ${west} and ${east} and ${isInCircle}`;
  const placeIds = places.map(({ id }) => id);
  return placeIds.length === 0
    ? sql<SqlBool>`(${hasCoordinatesInside})`
    : sql<SqlBool>`(${hasCoordinatesInside} or latitude is null and ${isInPlaces(placeIds)}
        and place_path[1] = any(${placeIds}::integer[]))`;
}
