import { cutText } from '../text/clean.ts';
import { normaliseText } from '../text/normalise.ts';
import type { ListingState } from './listing-state.ts';

/**
 * PostgreSQL refuses a search vector above 1 MiB, and with it the listing. A character takes at most
 * 3 bytes here, and a vector at most twice its text's bytes, so this stays below whatever the text is;
 * the limits of the facts themselves come to less than half of it.
 */
const MAX_LENGTH = 150_000;

type SearchedFacts = Pick<
  ListingState,
  | 'title'
  | 'summary'
  | 'description'
  | 'property_type'
  | 'city'
  | 'district'
  | 'address'
  | 'features'
>;

/** The words by which a listing is found, as the search knows words. */
export function searchText(facts: SearchedFacts): string {
  const texts = [
    facts.title,
    facts.summary,
    facts.description,
    facts.property_type,
    facts.city,
    facts.district,
    facts.address,
    ...facts.features,
  ];
  return cutText(normaliseText(texts.filter((text) => text !== null).join('\n')), MAX_LENGTH);
}
