import type { ListingState } from '../pipeline/listing-state.ts';
import type { PlaceColumns } from '../places/listing-place.ts';
import {
  createAreaTerms,
  createFactTerm,
  createPhoneTerms,
  extractPhones,
  findFacts,
  normalizeNumbers,
} from './fact-terms.ts';
import { STOP_WORDS, stemWord } from './stems.ts';

/** Version of the analysis. Increase it when the terms of the same listing change. */
export const STEMS_VERSION = 1;

/** Marks a term of a title, beside the term without the mark: an index can choose the listings with words in the title. */
export const TITLE_MARK = '^';

/** Place in the ranking: title, facts, and everything else. */
type Weight = 'A' | 'B' | 'D';

/** Largest position in a `tsvector`, and the maximum number of positions of a term. */
const MAX_POSITION = 16_383;
const MAX_POSITIONS_PER_TERM = 255;

/** Fields and place of a listing. */
type StemFields = Partial<
  Omit<ListingState, 'published_at'> & Pick<PlaceColumns, 'place_path' | 'place_text'>
>;

/**
 * Returns the stems of a listing as a literal of `tsvector`: title (weight A), facts (B) and all other texts (D). Facts
 * have terms such as `@rooms2` and `@place702550`. Below 1 MB, the maximum of PostgreSQL, for all texts that the fields
 * allow.
 */
export function createStems(fields: StemFields): string {
  return Array.from(
    collectTerms(fields),
    ([term, positions]) => `'${term}':${positions.join(',')}`,
  ).join(' ');
}

/** Returns the distinct terms of a listing without those with the mark of titles. */
export const listStemTerms = (fields: StemFields): string[] =>
  [...collectTerms(fields).keys()].filter((term) => !term.startsWith(TITLE_MARK));

/** Returns the positions of the terms of a listing, with their weights. */
function collectTerms(fields: StemFields): Map<string, string[]> {
  const positionsByTerm = new Map<string, string[]>();
  let position = 0;
  const addTerms = (terms: readonly string[], weight: Weight): void => {
    position = Math.min(position + 1, MAX_POSITION);
    const markedTerms = weight === 'A' ? terms.map((term) => `${TITLE_MARK}${term}`) : [];
    for (const term of [...terms, ...markedTerms]) {
      const positions = positionsByTerm.get(term) ?? [];
      positionsByTerm.set(term, positions);
      if (positions.length < MAX_POSITIONS_PER_TERM) positions.push(`${position}${weight}`);
    }
  };
  const addTexts = (texts: readonly (string | null | undefined)[], weight: Weight): void => {
    for (const text of texts) {
      for (const terms of analyzeText(text ?? '')) addTerms(terms, weight);
    }
  };
  addTexts([fields.title], 'A');
  addTerms(listFactTerms(fields), 'B');
  addTexts([fields.place_text, fields.city, fields.district, fields.address], 'B');
  addTexts([fields.description, fields.summary, fields.property_type_text], 'D');
  addTexts(fields.features ?? [], 'D');
  return positionsByTerm;
}

/** Returns the stems of a listing with their version, as the trigger of `listing_index` reads them (migration 0038). */
export const formatStems = (fields: StemFields): string =>
  `${STEMS_VERSION};${createStems(fields)}`;

function listFactTerms(fields: StemFields): string[] {
  const { deal_type, property_type, price, rooms, floor, floors_total, area_total } = fields;
  const counts = Object.entries({ rooms, floor, floors: floors_total });
  return [
    ...[deal_type, property_type].flatMap((name) => (name ? createFactTerm(name) : [])),
    ...(fields.place_path ?? []).map((id) => createFactTerm('place', id)),
    ...counts.flatMap(([name, count]) => (count == null ? [] : createFactTerm(name, count))),
    ...(floor != null && floor === floors_total && floor > 1 ? [createFactTerm('last_floor')] : []),
    ...(area_total == null ? [] : createAreaTerms(area_total)),
    // A price is found by its digits, like the same number in a text.
    ...(price == null ? [] : [String(price)]),
    ...(fields.phones ?? []).flatMap(createPhoneTerms),
  ];
}

/** Returns the terms of a text by position: stems of each word, and the facts and phones that the text states. */
export function analyzeText(text: string): string[][] {
  const { phones, rest } = extractPhones(text);
  const normalizedText = normalizeNumbers(rest);
  const words = normalizedText.split(' ').filter((word) => word !== '');
  const positions = words.map((word) => (STOP_WORDS.has(word) ? [] : [...stemWord(word)]));
  const facts = findFacts(normalizedText);
  let start = 0;
  let factIndex = 0;
  for (const [index, word] of words.entries()) {
    const end = start + word.length;
    for (let fact; (fact = facts[factIndex]) !== undefined && fact.start <= end; factIndex += 1)
      positions[index]?.push(...fact.terms);
    start = end + 1;
  }
  return [...positions, ...phones.map(createPhoneTerms)];
}
