import { Type } from 'typebox';
import type { Payload } from '../payload.ts';
import { MAX_IMAGES } from '../../schemas.ts';

const EXAMPLE: Payload = {
  source_slug: 'my-notes',
  external_id: '2',
  description: 'Продам 2-к квартиру на Сихові, 54 м², 5/9 поверх. Ціна 62 000 дол.',
};

/**
 * The form, for the OpenAPI document. It is read while it comes, so nothing validates it as a whole.
 * Specification 001, Endpoints.
 */
export const formSchema = Type.Object(
  {
    metadata: Type.String({
      contentMediaType: 'application/json',
      description:
        'The payload: JSON of `PayloadSchema`. Sent before the files it can be refused before they are read.',
    }),
    images: Type.Optional(
      Type.Array(Type.String({ format: 'binary' }), {
        maxItems: MAX_IMAGES,
        description:
          'JPEG, PNG, WebP, AVIF or GIF, at most 50 MB each and 512 MB in all. The listing then has these pictures, whatever `image_urls` names; without any it has those.',
      }),
    ),
  },
  {
    additionalProperties: false,
    examples: [{ metadata: JSON.stringify(EXAMPLE), images: ['kitchen.jpg', 'balcony.jpg'] }],
  },
);

/** Contract 4, Answers. */
export const processedSchema = Type.Object({
  raw_id: Type.Integer(),
  status: Type.Literal('completed'),
  listing_id: Type.Integer(),
  images: Type.Array(
    Type.Union([
      Type.Object({
        sha256: Type.String(),
        width: Type.Integer(),
        height: Type.Integer(),
        duplicate: Type.Boolean({ description: 'Whether these bytes were stored before.' }),
      }),
      Type.Object({ error: Type.String({ description: 'Why this picture cannot be used.' }) }),
    ]),
    {
      description:
        'In the order in which they came. Empty where a newer payload that says something else of the listing has come since.',
    },
  ),
});
