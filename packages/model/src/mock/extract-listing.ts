import { maskPhones, readContactName, readPhones } from './contacts.ts';
import { readFeatures } from './features.ts';
import { type Facts, guessDealType, readDealType, readPropertyType } from './kinds.ts';
import { detectLanguage } from './language.ts';
import { replaceNumberWords } from './numbers.ts';
import { normalizeCity, readAddress, readPlace } from './places.ts';
import { countOffers, readPrice } from './price.ts';
import { explainRejection } from './relevance.ts';
import { readAreas, readFloors, readRooms } from './sizes.ts';
import { cleanTitle, composeTexts } from './summary.ts';
import { clean, compileWords, fold, parseCapture } from './text.ts';

/** Maximum number of characters to read. A payload may have 50,000 (Contract 4), but its facts come early. */
const MAX_TEXT_LENGTH = 20_000;
const MAX_TITLE_LENGTH = 500;
const MAX_PHONES = 10;

/** Source payload, which the collector has validated. */
type Payload = Partial<Facts & { title: string; description: string }>;

const YEAR_GROUP = String.raw`(1[5-9]\d\d|20\d\d)`;
const YEAR_BUILT_PATTERNS = [
  String.raw`(?:built|constructed|completed)(?: in)? ?:? ?${YEAR_GROUP}`,
  String.raw`(?:рік|року|год|года) (?:побудови|будівництва|зведення|постройки|строительства) ?[:=-]? ?${YEAR_GROUP}`,
  String.raw`${YEAR_GROUP} ?(?:року?|р\.?|года?|г\.?)? ?(?:побудови|будівництва|зведення|постройки|строительства|п\.?)`,
  String.raw`(?:побудован|зведен|построен|возведен)\p{L}* (?:у|в) ${YEAR_GROUP}`,
  String.raw`(?:будинк|будинок|новобудов|дом|новостро)\p{L}* ${YEAR_GROUP} ?(?:року?|р\.?|года?|г\.?)`,
].map((source) => compileWords(source));

/**
 * Reads the fields that depend on no other field. To add a field of a listing, add its rule here.
 * @param originalText The cleaned text in its original case.
 * @param foldedText The folded text, with number words as digits and without phone numbers.
 */
const readSimpleFields = (originalText: string, foldedText: string) => ({
  address: readAddress(originalText),
  year_built:
    YEAR_BUILT_PATTERNS.map((pattern) => parseCapture(foldedText.match(pattern))).find(
      Number.isInteger,
    ) ?? null,
  contact_name: readContactName(maskPhones(originalText)),
  phones: readPhones(originalText).slice(0, MAX_PHONES),
  features: readFeatures(foldedText),
  offers: countOffers(foldedText),
});

/** Folds text, with number words as digits and without phone numbers. */
const foldForRules = (cleanedText: string): string =>
  replaceNumberWords(fold(maskPhones(cleanedText)));

/** Reads the facts of a listing by rules. Fields of the payload take precedence over its texts. */
function readListing({ title = '', description = '', ...fields }: Payload) {
  const cleanedTitle = clean(title, MAX_TITLE_LENGTH);
  const originalText = `${cleanedTitle}\n${clean(description, MAX_TEXT_LENGTH)}`.trim();
  const [foldedTitle, foldedText] = [foldForRules(cleanedTitle), foldForRules(originalText)];
  const dealType = fields.deal_type ?? readDealType(foldedTitle, foldedText);
  const namedType = fields.property_type ?? readPropertyType(foldedTitle, foldedText);
  const rooms = fields.rooms ?? readRooms(foldedText, namedType);
  const propertyType = namedType ?? (rooms === null ? null : 'apartment');
  const prices = readPrice(foldedText, { dealType, knownPrice: fields.price });
  const areas = readAreas(foldedText, propertyType);
  const floors = readFloors(foldedText, propertyType);
  const facts = {
    language: detectLanguage(foldedText),
    deal_type: dealType ?? guessDealType(prices.price, prices.currency),
    property_type: propertyType,
    ...prices,
    currency: fields.currency ?? prices.currency,
    ...readPlace(originalText, foldedText, fields.city ? normalizeCity(fields.city) : undefined),
    rooms,
    area_total: fields.area_total ?? areas.total,
    area_living: areas.living,
    area_kitchen: areas.kitchen,
    floor: fields.floor ?? floors.floor,
    floors_total: fields.floors_total ?? floors.total,
    ...readSimpleFields(originalText, foldedText),
  } satisfies Facts;
  return { facts, foldedText, title: cleanedTitle };
}

/**
 * Extracts the facts of a listing from a payload by rules (Contract 4, Model). Instructions inside the text have no
 * effect.
 */
export function extractListing(payload: Payload) {
  const { facts, foldedText, title } = readListing(payload);
  const { deal_type: dealType, property_type: propertyType, price } = facts;
  const isStructured = payload.deal_type !== undefined && price !== null;
  const reason = explainRejection(foldedText, {
    mentionsProperty: propertyType !== null || isStructured,
    hasFacts: dealType !== null || price !== null || facts.area_total !== null,
  });
  if (reason !== null) {
    return {
      is_listing: false,
      reason,
      language: facts.language,
      phones: facts.phones,
      features: [],
    };
  }
  const composedTexts = composeTexts(facts);
  return {
    is_listing: true,
    reason,
    ...facts,
    ...composedTexts,
    title: cleanTitle(title) ?? composedTexts.title,
  };
}

/** Search criteria. Criteria that the text does not mention are null. */
export type SearchCriteria = Facts & {
  /** Whether the text names a property. */
  mentionsProperty: boolean;
};

/** Reads search criteria from text, with the same rules as for listings. */
export function extractSearchCriteria(text: string): SearchCriteria {
  const { facts } = readListing({ description: text });
  return { ...facts, mentionsProperty: facts.property_type !== null };
}
