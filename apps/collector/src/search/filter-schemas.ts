import { type Static, Type } from 'typebox';
import { DEAL_TYPES, FIELDS } from '../listing/fields.ts';
import { PROPERTY_TYPES } from '../listing/property-types.ts';
import { requestedCurrencySchema } from '../money/conversion.ts';
import { SOURCE_SLUG_PATTERN } from '../schemas.ts';

/** Pattern that excludes U+0000 and lone surrogates, which PostgreSQL cannot store as text. */
export const STORABLE_PATTERN = '^[^\\u0000\\p{Cs}]*$';

const MAX_ALTERNATIVES = 50;
const MAX_FEATURES = 20;
const MAX_RADIUS_M = 200_000;

/** One value, or several alternatives. A type array keeps the paths of errors and the bounds in one schema. */
const createAlternativesFilter = (schema: object, description: string) =>
  Type.Optional(
    Type.Unsafe<string | string[]>({
      ...schema,
      type: ['string', 'array'],
      items: { type: 'string', ...schema },
      minItems: 1,
      maxItems: MAX_ALTERNATIVES,
      description: `${description} Several values are alternatives.`,
    }),
  );

const nameBounds = { minLength: 1, maxLength: 200, pattern: STORABLE_PATTERN };
const priceSchema = Type.Optional(Type.Number({ minimum: 0, maximum: 1e14 }));
const roomsSchema = Type.Optional(Type.Integer({ minimum: 0, maximum: 10_000 }));
const areaSchema = Type.Optional(Type.Number({ minimum: 0, maximum: 1e10 }));
const floorSchema = Type.Optional(Type.Integer({ minimum: -20, maximum: 1000 }));
const createFlag = (description: string) => Type.Optional(Type.Boolean({ description }));
const createTimeFilter = (description: string) =>
  Type.Optional(Type.String({ format: 'date-time', maxLength: 35, description }));
const latitudeSchema = Type.Number({ minimum: -90, maximum: 90 });
const longitudeSchema = Type.Number({ minimum: -180, maximum: 180 });

/** Area between two latitudes and two longitudes. */
export const boundingBoxSchema = Type.Unsafe<
  [west: number, south: number, east: number, north: number]
>(
  Type.Array(longitudeSchema, {
    minItems: 4,
    maxItems: 4,
    description:
      'Area `[west, south, east, north]` in degrees. A listing without coordinates is at its district or city.',
  }),
);

/** Filters of all searches. */
export const filterSchemas = {
  deal_type: createAlternativesFilter({ pattern: `^(${DEAL_TYPES.join('|')})$` }, 'Kind of deal.'),
  city: createAlternativesFilter(
    nameBounds,
    'City by any of its names in any spelling: "Lwów" and "Львов" find "Львів". An unknown name finds cities of this spelling.',
  ),
  district: createAlternativesFilter(
    nameBounds,
    'District or raion by any of its names in any spelling, in every city unless `city` is given.',
  ),
  region: createAlternativesFilter(
    nameBounds,
    'Region by any of its names, such as "Львівська область" or "Львівщина". An unknown name finds nothing.',
  ),
  place_ids: Type.Optional(
    Type.Array(Type.Integer({ minimum: 1, maximum: 2 ** 31 - 1 }), {
      minItems: 1,
      maxItems: MAX_ALTERNATIVES,
      description:
        'IDs of cities, districts, raions, regions or countries, as in `place_id` of facets and suggestions. A listing is in ' +
        'one of them. An unknown ID finds nothing.',
    }),
  ),
  property_type: createAlternativesFilter(
    { ...nameBounds, maxLength: 100 },
    `${PROPERTY_TYPES.join(', ')}, or a word for one of them in Ukrainian, Russian or English: "квартира" and "flat" find "apartment". Another word is 422.`,
  ),
  price_min: priceSchema,
  price_max: priceSchema,
  price_per_m2_min: priceSchema,
  price_per_m2_max: priceSchema,
  currency: requestedCurrencySchema,
  rooms_min: roomsSchema,
  rooms_max: roomsSchema,
  area_min: areaSchema,
  area_max: areaSchema,
  floor_min: floorSchema,
  floor_max: floorSchema,
  not_first_floor: createFlag('Exclude the ground floor and below, and listings without a floor.'),
  not_last_floor: createFlag(
    'Exclude the top floor, and listings without a floor or the number of floors.',
  ),
  features: Type.Optional(
    Type.Array(Type.String({ ...FIELDS.features.value.items, pattern: STORABLE_PATTERN }), {
      minItems: 1,
      maxItems: MAX_FEATURES,
      description: 'Features that a listing must all have, such as `balcony`.',
    }),
  ),
  has_images: createFlag('Find only listings with at least one stored image, or with none.'),
  price_dropped_since: createTimeFilter(
    'Find listings whose last change of price in one currency was a fall at or after this time.',
  ),
  first_seen_since: createTimeFilter('Find listings that were first seen at or after this time.'),
  bbox: Type.Optional(boundingBoxSchema),
  near: Type.Optional(
    Type.Object(
      {
        latitude: latitudeSchema,
        longitude: longitudeSchema,
        radius_m: Type.Number({ exclusiveMinimum: 0, maximum: MAX_RADIUS_M }),
      },
      {
        additionalProperties: false,
        description:
          'Circle around a point, with a radius in metres. A listing without coordinates is at its district or city.',
      },
    ),
  ),
  source_slug: createAlternativesFilter({ pattern: SOURCE_SLUG_PATTERN }, 'Source of the listing.'),
  include_archived: Type.Optional(Type.Boolean({ default: false })),
};

const filtersSchema = Type.Object(filterSchemas);

export type SearchFilters = Static<typeof filtersSchema>;
