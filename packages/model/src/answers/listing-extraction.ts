import { type Static, Type } from 'typebox';
import { defineAnswer } from './answer.ts';

const text = () => Type.Union([Type.String(), Type.Null()]);
const number = () => Type.Union([Type.Number(), Type.Null()]);

/**
 * What a model answers about a payload that may be a property listing; what it does not know is null.
 * The types are asked for here; whoever uses the values checks them (Contract 4, Stages). Models read
 * this schema, and the prompt's version stands for it.
 */
export const listingExtraction = defineAnswer({
  schemaName: 'listing_extraction',
  // A long answer has about 600; with the instructions it takes 3,000 of the context (docs/models.md).
  maxOutputTokens: 2_000,
  schema: Type.Object({
    is_listing: Type.Boolean(),
    /** Why the payload is no property listing; null for listings. */
    reason: text(),
    language: text(),
    /** A short, cleaned title. */
    title: text(),
    /** One or two sentences made from the facts, in the text's language. */
    summary: text(),
    deal_type: Type.Union([Type.Enum(['sale', 'rent', 'daily_rent']), Type.Null()]),
    property_type: text(),
    /** The asking price: in all for a sale, for a month of rent, for a night of daily rent. */
    price: number(),
    /** ISO 4217. */
    currency: text(),
    city: text(),
    district: text(),
    /** Street and number as written. */
    address: text(),
    /** Rooms as the text counts them; bedrooms where an English text counts only those. */
    rooms: number(),
    /** Square metres, as are the other areas. */
    area_total: number(),
    area_living: number(),
    area_kitchen: number(),
    /** Counted from 1 at street level. */
    floor: number(),
    floors_total: number(),
    contact_name: text(),
    phones: Type.Array(Type.String()),
    features: Type.Array(Type.String()),
  }),
});

/** An answer of that schema: the types are right, and the values whatever the model made of the text. */
export type ListingExtraction = Static<typeof listingExtraction.schema>;
