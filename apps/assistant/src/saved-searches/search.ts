import { commonProblem } from '@oselya/kit';
import { type Static, Type } from 'typebox';

// Exactly the collector's filters: a test compares this with its OpenAPI document.

/** PostgreSQL's text holds neither U+0000 nor half a surrogate pair. */
const STORABLE = '^[^\\u0000\\p{Cs}]*$';

const word = (maxLength: number, description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength, pattern: STORABLE, description }));
const price = Type.Optional(Type.Number({ minimum: 0, maximum: 1e14 }));
const rooms = Type.Optional(Type.Integer({ minimum: 0, maximum: 10_000 }));
const area = Type.Optional(Type.Number({ minimum: 0, maximum: 1e10 }));

/** The words and filters of `POST /api/v1/search/fulltext`. Contract 4, Search. */
export const searchSchema = Type.Object(
  {
    query: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 512,
        pattern: STORABLE,
        description:
          'Plain text: a listing is found when it has all the words, in any order. Without it the filters alone decide.',
      }),
    ),
    deal_type: Type.Optional(Type.Enum(['sale', 'rent', 'daily_rent'])),
    city: word(200, 'However it is written: "Івано-Франківськ" finds "івано франківськ".'),
    property_type: word(100, 'As listings have it, in any case: "Apartment" finds "apartment".'),
    price_min: price,
    price_max: price,
    rooms_min: rooms,
    rooms_max: rooms,
    area_min: area,
    area_max: area,
    source_slug: Type.Optional(Type.String({ pattern: '^[a-z0-9][a-z0-9_-]{0,63}$' })),
    include_archived: Type.Optional(Type.Boolean()),
  },
  {
    additionalProperties: false,
    minProperties: 1,
    description: 'The words and filters that a new or cheaper listing must match.',
  },
);

/** A search for listings. */
export type Search = Static<typeof searchSchema>;

const RANGES = [
  ['price_min', 'price_max'],
  ['rooms_min', 'rooms_max'],
  ['area_min', 'area_max'],
] as const;

/**
 * Rejects empty ranges, as the collector does.
 * @throws ProblemError `validation_failed` naming each lower end that is above its upper end.
 */
export function checkRanges(search: Search): void {
  const errors = RANGES.filter(
    ([min, max]) => (search[min] ?? -Infinity) > (search[max] ?? Infinity),
  ).map(([min, max]) => ({ path: `body/search/${min}`, message: `must not be above ${max}` }));
  if (errors.length > 0) throw commonProblem('validation_failed', { errors });
}
