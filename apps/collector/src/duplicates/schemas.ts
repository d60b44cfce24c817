import { Type } from 'typebox';
import { choice, nullable } from '../schemas.ts';
import { REASONS, THRESHOLD } from './compare.ts';

const duplicateSchema = Type.Object({
  listing_id: Type.Integer(),
  source_slug: Type.String(),
  external_id: Type.String(),
  url: nullable(Type.String()),
  price: nullable(Type.Number()),
  currency: nullable(Type.String()),
  score: Type.Number({
    minimum: THRESHOLD,
    maximum: 1,
    description: 'How likely it is the same property: the sum of the parts, at most 1.',
  }),
  reasons: Type.Array(
    Type.Object({
      reason: choice(REASONS),
      part: Type.Number({ description: 'Its part of the score; below 0 it speaks against.' }),
      detail: Type.String({ description: 'What was found, for people.' }),
    }),
  ),
});

/** The likely duplicates of a listing, as the API answers them. */
export const duplicatesSchema = Type.Array(duplicateSchema, {
  description:
    'Other listings that are likely the same property, the likeliest first: of other sources or ids, ' +
    'for the same kind of offer, and not archived. They are looked for some seconds after a change.',
  examples: [
    [
      {
        listing_id: 118,
        source_slug: 'misto',
        external_id: 'a-77',
        url: 'https://misto.example/a-77',
        price: 88_500,
        currency: 'USD',
        score: 0.91,
        reasons: [
          { reason: 'place', part: 0.2, detail: 'same building' },
          { reason: 'area', part: 0.2, detail: 'both 54.3 m²' },
          { reason: 'rooms', part: 0.2, detail: '2 rooms, floor 3, of 5' },
          { reason: 'price', part: 0.06, detail: 'prices 2 % apart' },
          { reason: 'pictures', part: 0.25, detail: '1 of 1 pictures' },
        ],
      },
    ],
  ],
});
