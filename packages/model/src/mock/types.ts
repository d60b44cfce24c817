import type { ListingExtraction } from '../answers/listing-extraction.ts';

/** The languages a text can be told to be in; `mixed` when none has a clear majority. */
export type Language = 'uk' | 'ru' | 'en' | 'mixed';

/** What is offered: for good, by the month, or by the night (Contract 4, PayloadSchema). */
export type DealType = NonNullable<ListingExtraction['deal_type']>;

/** The kind of property offered. */
export type PropertyType = 'apartment' | 'house' | 'room' | 'land' | 'commercial' | 'garage';

/**
 * A listing as the rules read it: the city is in the Ukrainian nominative where the gazetteer knows it,
 * phones are `+` and digits, and features are sorted slugs out of `FEATURE_SLUGS`.
 */
export type ReadListing = ListingExtraction & {
  language: Language;
  property_type: PropertyType | null;
};
