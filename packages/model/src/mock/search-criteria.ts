import { readText } from './listing-text.ts';
import { readFacts } from './read-listing.ts';
import type { DealType, Language, PropertyType } from './types.ts';

/** What somebody looks for, as far as a text says it; unknown things null. */
export type SearchCriteria = {
  language: Language;
  /** Whether it speaks of a kind of property at all. */
  namesProperty: boolean;
  deal_type: DealType | null;
  property_type: PropertyType | null;
  price: number | null;
  currency: string | null;
  city: string | null;
  district: string | null;
  rooms: number | null;
  /** In square metres. */
  area_total: number | null;
  features: readonly string[];
};

/** Reads what somebody looks for, by the rules that read listings. */
export function readSearchCriteria(text: string): SearchCriteria {
  return readFacts({}, readText('', text));
}
