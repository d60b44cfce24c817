import { cursors } from '@oselya/kit';
import { type Static, Type } from 'typebox';
import { choice, nullable, MAX_ID } from '../../schemas.ts';

/** How long changes are kept: whoever asks more rarely misses some. */
export const KEPT_DAYS = 30;

/** The most changes that an answer has. */
const MAX_LIMIT = 100;
/** How many changes an answer has where the caller does not say. */
export const PAGE_SIZE = 100;

/** What a text that is no cursor of the feed is told. */
export const NO_CURSOR = {
  path: 'querystring/after',
  message: 'must be the cursor of an earlier answer; without it the changes from now on are meant',
};

/**
 * Where a reader is: after a position, and when the change at it was written, in milliseconds since the epoch;
 * null where there was none.
 */
export const changeCursors = cursors(
  Type.Tuple([Type.Integer({ minimum: 0, maximum: MAX_ID }), nullable(Type.Integer())]),
  NO_CURSOR,
);

/** The query of `GET /listings/changes`. */
export const changesQuery = Type.Object(
  {
    after: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 256,
        description:
          'The `cursor` of the answer before. Without it: what changes from now on, and what has changed in ' +
          'the last minute where so much did that it is not in its order yet (`has_more`).',
      }),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_LIMIT, default: PAGE_SIZE })),
  },
  { additionalProperties: false },
);

const ofPrices = 'Of a change of the price; null where there was none, and for all else.';
const price = nullable(Type.Number({ description: ofPrices }));
const currency = nullable(Type.String({ description: ofPrices }));

const changeSchema = Type.Object({
  listing_id: Type.Integer(),
  source_slug: Type.String(),
  kind: choice(['new', 'price_changed', 'returned'], {
    description:
      '`new`: it was not there before. `price_changed`: its source has sent another price or currency; one ' +
      'that is read differently out of the same payload is none. `returned`: it was archived and its source ' +
      'has it again.',
  }),
  price_from: price,
  price_to: price,
  currency_from: currency,
  currency_to: currency,
  changed_at: Type.String({ format: 'date-time' }),
});

/** What became of a listing, as followers of the feed get it. */
export type Change = Static<typeof changeSchema>;

const noPrices = { price_from: null, price_to: null, currency_from: null, currency_to: null };

/** The answer of `GET /listings/changes`: changes in the order in which they were committed. */
export const changesAnswer = Type.Object(
  {
    items: Type.Array(changeSchema),
    cursor: Type.String({
      description: 'Give it as `after` the next time, also where `items` is empty.',
    }),
    has_more: Type.Boolean({
      description: 'Whether it is worth asking again at once, also where `items` is empty.',
    }),
  },
  {
    description: 'Changes in the order in which they were committed.',
    examples: [
      {
        items: [
          {
            listing_id: 812,
            source_slug: 'doshka',
            kind: 'new',
            ...noPrices,
            changed_at: '2026-05-04T09:00:00.000Z',
          },
          {
            listing_id: 640,
            source_slug: 'doshka',
            kind: 'price_changed',
            price_from: 62_000,
            price_to: 59_500,
            currency_from: 'USD',
            currency_to: 'USD',
            changed_at: '2026-05-04T09:00:01.500Z',
          },
        ],
        cursor: 'WzQwNywxNzc3ODg1MjAxNTAwXQ',
        has_more: false,
      },
    ],
  },
);
