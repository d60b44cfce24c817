import { maskPhones, readContactName, readPhones } from './contacts.ts';
import { readFeatures } from './features.ts';
import {
  type DealType,
  guessDealType,
  type PropertyType,
  readDealType,
  readPropertyType,
} from './kinds.ts';
import { detectLanguage, type Language } from './language.ts';
import { replaceNumberWords } from './numbers.ts';
import { normalizeCity, readAddress, readPlace } from './places.ts';
import { readPrice } from './price.ts';
import { explainRejection } from './relevance.ts';
import { readAreas, readFloors, readRooms } from './sizes.ts';
import { cleanTitle, composeTexts } from './summary.ts';
import { clean, compileWords, fold, parseCapture } from './text.ts';

/** A payload may have 50,000 characters (Contract 4), but the facts are near the beginning. */
const MAX_TEXT = 20_000;
const MAX_TITLE = 500;
const MAX_PHONES = 10;

/** Facts of a listing. Facts that its texts do not contain are null. */
type Facts = {
  language: Language;
  deal_type: DealType | null;
  property_type: PropertyType | null;
  price: number | null;
  currency: string | null;
  /** Ukrainian name in the nominative, if the city is known. */
  city: string | null;
  district: string | null;
  rooms: number | null;
  area_total: number | null;
  area_living: number | null;
  area_kitchen: number | null;
  floor: number | null;
  floors_total: number | null;
};

/** Payload of a source, validated by the collector. */
type Payload = Partial<Facts & { title: string; description: string; address: string }>;

const YEAR = String.raw`(1[5-9]\d\d|20\d\d)`;
const YEAR_BUILT = [
  String.raw`(?:built|constructed|completed)(?: in)? ?:? ?${YEAR}`,
  String.raw`(?:рік|року|год|года) (?:побудови|будівництва|зведення|постройки|строительства) ?[:=-]? ?${YEAR}`,
  String.raw`${YEAR} ?(?:року?|р\.?|года?|г\.?)? ?(?:побудови|будівництва|зведення|постройки|строительства|п\.?)`,
  String.raw`(?:побудован|зведен|построен|возведен)\p{L}* (?:у|в) ${YEAR}`,
  String.raw`(?:будинк|будинок|новобудов|дом|новостро)\p{L}* ${YEAR} ?(?:року?|р\.?|года?|г\.?)`,
].map((source) => compileWords(source));

/**
 * Reads the fields that depend on no other field. To add a field of a listing, add its rule here.
 * @param written The cleaned text in its original case.
 * @param folded The folded text, with number words as digits and without phone numbers.
 */
const readSimpleFields = (written: string, folded: string) => ({
  address: readAddress(written),
  year_built:
    YEAR_BUILT.map((pattern) => parseCapture(folded.match(pattern))).find(Number.isInteger) ?? null,
  contact_name: readContactName(maskPhones(written)),
  phones: readPhones(written).slice(0, MAX_PHONES),
  features: readFeatures(folded),
});

/** Folds a text, with number words as digits and without phone numbers. */
const foldForRules = (cleaned: string): string => replaceNumberWords(fold(maskPhones(cleaned)));

/** Reads the facts of a listing by rules. Fields of the payload take precedence over its texts. */
function readListing({ title = '', description = '', ...fields }: Payload) {
  const cleanedTitle = clean(title, MAX_TITLE);
  const written = `${cleanedTitle}\n${clean(description, MAX_TEXT)}`.trim();
  const [foldedTitle, folded] = [foldForRules(cleanedTitle), foldForRules(written)];
  const deal = fields.deal_type ?? readDealType(foldedTitle, folded);
  const namedType = fields.property_type ?? readPropertyType(foldedTitle, folded);
  const rooms = fields.rooms ?? readRooms(folded, namedType);
  const type = namedType ?? (rooms === null ? null : 'apartment');
  const { price, currency } = readPrice(folded, { deal, known: fields.price });
  const areas = readAreas(folded, type);
  const floors = readFloors(folded, type);
  const facts = {
    language: detectLanguage(folded),
    deal_type: deal ?? guessDealType(price, currency),
    property_type: type,
    price,
    currency: fields.currency ?? currency,
    ...readPlace(written, folded, fields.city ? normalizeCity(fields.city) : undefined),
    rooms,
    area_total: fields.area_total ?? areas.total,
    area_living: areas.living,
    area_kitchen: areas.kitchen,
    floor: fields.floor ?? floors.floor,
    floors_total: fields.floors_total ?? floors.total,
    ...readSimpleFields(written, folded),
  } satisfies Facts;
  return { facts, folded, title: cleanedTitle };
}

/**
 * Extracts the facts of a listing from a payload by rules (Contract 4, Model). Instructions inside a text have no
 * effect.
 */
export function extractListing(payload: Payload) {
  const { facts, folded, title } = readListing(payload);
  const { deal_type: deal, property_type: type, price } = facts;
  const isStructured = payload.deal_type !== undefined && price !== null;
  const reason = explainRejection(folded, {
    namesProperty: type !== null || isStructured,
    hasFacts: deal !== null || price !== null || facts.area_total !== null,
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
  const composed = composeTexts(facts);
  return {
    is_listing: true,
    reason,
    ...facts,
    ...composed,
    title: cleanTitle(title) ?? composed.title,
  };
}

/** Search criteria in a text. Criteria that the text does not contain are null. */
export type SearchCriteria = Facts & {
  /** Whether the text names a property. */
  namesProperty: boolean;
};

/** Reads search criteria from a text, with the same rules as for listings. */
export function extractSearchCriteria(text: string): SearchCriteria {
  const { facts } = readListing({ description: text });
  return { ...facts, namesProperty: facts.property_type !== null };
}
