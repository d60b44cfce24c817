import { type Static, Type } from 'typebox';
import { MAX_PICTURES } from '../limits.ts';
import { choice } from '../schemas/common.ts';

/** What PostgreSQL's `numeric(16, 2)` and `numeric(12, 2)` hold, rounded down to whole units. */
const MAX_PRICE = 99_999_999_999_999;
const MAX_AREA = 9_999_999_999;

/** A time with an offset, and nine digits of a second: more than any clock gives. */
const MAX_TIME_LENGTH = '2026-01-31T12:00:00.123456789+02:00'.length;

const text = (maxLength: number) => Type.Optional(Type.String({ maxLength }));
const count = (minimum: number, maximum: number) =>
  Type.Optional(Type.Integer({ minimum, maximum }));
const area = () =>
  Type.Optional(Type.Number({ minimum: 0, maximum: MAX_AREA, description: 'Square metres.' }));
const address = (description: string) =>
  Type.String({
    format: 'uri',
    pattern: '^[hH][tT][tT][pP][sS]?://[^/?#]',
    maxLength: 2048,
    description,
  });

/** The name of a source, wherever it is asked for. */
export const sourceSlugSchema = Type.String({
  pattern: '^[a-z0-9][a-z0-9_-]{0,63}$',
  description: 'The source; it comes into being with its first payload.',
});

/** The kinds of offer, wherever they are asked for. */
export const dealTypeSchema = choice(['sale', 'rent', 'daily_rent']);

/** What a source sends; unknown keys are errors. Contract 4, PayloadSchema. */
export const PayloadSchema = Type.Object(
  {
    source_slug: sourceSlugSchema,
    external_id: Type.String({
      minLength: 1,
      maxLength: 200,
      pattern: '\\S',
      description: "The listing's id at its source.",
    }),
    url: Type.Optional(address("The listing's page at its source.")),
    title: text(500),
    description: Type.String({ minLength: 1, maxLength: 50_000, pattern: '\\S' }),
    price: Type.Optional(Type.Number({ minimum: 0, maximum: MAX_PRICE })),
    currency: Type.Optional(Type.String({ pattern: '^[A-Z]{3}$', description: 'ISO 4217.' })),
    deal_type: Type.Optional(dealTypeSchema),
    property_type: text(100),
    city: text(200),
    district: text(200),
    address: text(500),
    rooms: count(0, 1000),
    area_total: area(),
    area_living: area(),
    area_kitchen: area(),
    floor: count(-20, 1000),
    floors_total: count(0, 1000),
    latitude: Type.Optional(Type.Number({ minimum: -90, maximum: 90 })),
    longitude: Type.Optional(Type.Number({ minimum: -180, maximum: 180 })),
    contact_name: text(200),
    phones: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 50 }), { maxItems: 20 }),
    ),
    published_at: Type.Optional(
      Type.String({ format: 'date-time', maxLength: MAX_TIME_LENGTH, description: 'RFC 3339.' }),
    ),
    image_urls: Type.Optional(Type.Array(address('A picture.'), { maxItems: MAX_PICTURES })),
    attributes: Type.Optional(
      Type.Object(
        {},
        {
          additionalProperties: true,
          description:
            'Whatever else the source knows, up to 64 KiB of JSON, at most 32 levels deep.',
        },
      ),
    ),
  },
  {
    $id: 'PayloadSchema',
    additionalProperties: false,
    examples: [
      {
        source_slug: 'my-notes',
        external_id: '1',
        description: 'Здам 2-к кв на Сихові, 5/9 эт., 60/40/9, євроремонт. 15 тис. грн + комуналка',
      },
    ],
  },
);

/** A payload that has passed its schema; `findValueErrors` has more rules for it. */
export type Payload = Static<typeof PayloadSchema>;
