import { type Static, Type } from 'typebox';

const text = Type.Union([Type.String(), Type.Null()]);

/** Beside these it has the fields that a line of facts shows. */
const listing = Type.Object({
  listing_id: Type.Integer(),
  title: text,
  summary: text,
  description: Type.String(),
  currency: text,
});

/** As much of a search's answer as is shown. Contract 4, Search. */
export const answerSchema = Type.Object({
  items: Type.Array(
    Type.Object({
      listing,
      rank: Type.Optional(Type.Number()),
      distance: Type.Optional(Type.Number()),
    }),
  ),
  total: Type.Optional(
    Type.Object({
      value: Type.Integer(),
      relation: Type.Union([Type.Literal('eq'), Type.Literal('gte')]),
    }),
  ),
});

/** What a search found. */
export type Answer = Static<typeof answerSchema>;
