import { normalizePhone, readContactName, readPhones, maskPhones } from './contacts.ts';
import { readFeatures } from './features.ts';
import {
  type DealType,
  guessDealType,
  type PropertyType,
  readDealType,
  readPropertyType,
} from './kinds.ts';
import { type Language, detectLanguage } from './language.ts';
import { replaceNumberWords } from './numbers.ts';
import { normalizeCity, readAddress, readPlace } from './places.ts';
import { findPriceCurrency, type Price, readPrice } from './price.ts';
import { explainRejection } from './relevance.ts';
import { readAreas, readFloors, readRooms, readYearBuilt } from './sizes.ts';
import { cleanTitle, composeSummary, composeTitle } from './summary.ts';
import { clean, fold, compilePattern } from './text.ts';

/** A payload may have 50,000 characters (Contract 4), but the facts are near the beginning. */
const MAX_TEXT = 20_000;
const MAX_TITLE = 500;
const MAX_PHONES = 10;
const MAX_AREA = 10_000_000;
/** Minimum price. Authors who do not want to name a price enter 1 if a form requires one. */
const MIN_PRICE = 2;

const DEALS: readonly DealType[] = ['sale', 'rent', 'daily_rent'];
const PROPERTIES: readonly PropertyType[] = [
  'apartment',
  'house',
  'room',
  'land',
  'commercial',
  'garage',
];

/** Text of a listing, prepared for the rules. */
type ListingText = {
  title: string;
  /** Cleaned title and description, separated by a line break, in their original case for names and addresses. */
  written: string;
  /** Folded title, with number words as digits and without phone numbers. */
  foldedTitle: string;
  /** Folded title and description, with number words as digits and without phone numbers. */
  folded: string;
};

const EURO_FLAT = compilePattern(String.raw`(?<!\p{L})[єе]вро-?(?=(?:одн|дв|тр)\p{L})`, 'gu');

/** Folds a text for the rules, with "двушка" for "евродвушка" and "этаж" for "єтаж". */
const foldForRules = (cleaned: string): string =>
  replaceNumberWords(fold(maskPhones(cleaned)).replace(EURO_FLAT, '').replaceAll('єтаж', 'этаж'));

/** Prepares a title and a description for the rules. Both may be empty. */
export function prepareText(rawTitle: string, rawDescription: string): ListingText {
  const title = clean(rawTitle, MAX_TITLE).replace(/\s+/gu, ' ').trim();
  const description = clean(rawDescription, MAX_TEXT).trim();
  const foldedTitle = foldForRules(title);
  return {
    title,
    written: `${title}\n${description}`.trim(),
    foldedTitle,
    folded: `${foldedTitle}\n${foldForRules(description)}`.trim(),
  };
}

/** Reads the structured fields of a payload. Implausible values count as absent. */
function readPayloadFields(payload: Record<string, unknown>) {
  const text = (key: string): string | null => {
    const value = payload[key];
    if (typeof value !== 'string') return null;
    return value.slice(0, 1_000).replace(/\s+/gu, ' ').trim() || null;
  };
  const number = (key: string, min: number, max: number): number | null => {
    const value = payload[key];
    return typeof value === 'number' && value >= min && value <= max ? value : null;
  };
  const integer = (key: string, min: number, max: number): number | null => {
    const value = number(key, min, max);
    return Number.isInteger(value) ? value : null;
  };
  const choice = <T extends string>(key: string, choices: readonly T[]): T | null =>
    choices.find((candidate) => candidate === payload[key]) ?? null;
  const currency = /^[a-z]{3}$/iu.exec(text('currency') ?? '')?.[0]?.toUpperCase() ?? null;
  const phones = (Array.isArray(payload['phones']) ? payload['phones'] : [])
    .slice(0, MAX_PHONES)
    .map((phone) => (typeof phone === 'string' ? normalizePhone(phone) : null));
  return { text, number, integer, choice, currency, phones };
}

type PayloadFields = ReturnType<typeof readPayloadFields>;

function findPrice(hints: PayloadFields, folded: string, read: Price): Price {
  const price = hints.number('price', MIN_PRICE, Number.MAX_SAFE_INTEGER);
  if (price !== null) {
    const currency = hints.currency ?? findPriceCurrency(folded, price) ?? read.currency;
    return { price, currency };
  }
  return read.price === null ? read : { ...read, currency: read.currency ?? hints.currency };
}

function findRooms(folded: string, type: PropertyType | null): number | null {
  if (type === 'room') return 1;
  return type === 'land' || type === 'garage' ? null : readRooms(folded);
}

/** Reads the facts about a property from a payload and its text. Works for listings and for search requests. */
export function extractFacts(payload: Record<string, unknown>, text: ListingText) {
  const { folded, foldedTitle, written } = text;
  const hints = readPayloadFields(payload);
  const saidDeal = hints.choice('deal_type', DEALS) ?? readDealType(foldedTitle, folded);
  const namedType =
    hints.choice('property_type', PROPERTIES) ?? readPropertyType(foldedTitle, folded);
  const { price, currency } = findPrice(hints, folded, readPrice(folded, saidDeal, namedType));
  const rooms = hints.integer('rooms', 1, 100) ?? findRooms(folded, namedType);
  const type = namedType ?? (rooms === null ? null : 'apartment');
  const areas = readAreas(folded, namedType);
  const floors = readFloors(folded, type);
  const city = hints.text('city');
  const place = readPlace(written, folded, city === null ? null : normalizeCity(city));
  const phones = [...hints.phones.filter((phone) => phone !== null), ...readPhones(written)];
  return {
    namesProperty: namedType !== null || rooms !== null,
    language: detectLanguage(folded),
    deal_type: saidDeal ?? guessDealType(price, currency),
    property_type: type,
    price,
    currency,
    city: place.city,
    district: hints.text('district') ?? place.district,
    address: hints.text('address') ?? readAddress(written),
    rooms,
    area_total: hints.number('area_total', 0.1, MAX_AREA) ?? areas.total,
    area_living: hints.number('area_living', 0.1, MAX_AREA) ?? areas.living,
    area_kitchen: hints.number('area_kitchen', 0.1, MAX_AREA) ?? areas.kitchen,
    floor: hints.integer('floor', -5, 200) ?? floors.floor,
    floors_total: hints.integer('floors_total', 1, 200) ?? floors.total,
    year_built: hints.integer('year_built', 1500, 2100) ?? readYearBuilt(folded),
    contact_name: hints.text('contact_name') ?? readContactName(maskPhones(written)),
    phones: [...new Set(phones)].slice(0, MAX_PHONES),
    features: readFeatures(folded),
  };
}

/**
 * Extraction of a payload. Known cities have their Ukrainian names in the nominative, phone numbers are `+` and digits,
 * areas are in square metres, and features are sorted slugs.
 */
export type ListingExtraction = Omit<ReturnType<typeof extractFacts>, 'namesProperty'> & {
  is_listing: boolean;
  reason: string | null;
  title: string | null;
  summary: string | null;
};

type NullFacts = Record<
  Exclude<keyof ListingExtraction, 'is_listing' | 'reason' | 'language' | 'phones' | 'features'>,
  null
>;

/**
 * Extracts the facts of a listing from a payload by rules (Contract 4, Model). Plausible fields of the payload take
 * precedence over its text. Instructions inside a text have no effect.
 * @param input Any JSON value.
 */
export function extractListing(input: unknown): ListingExtraction {
  const isObject = typeof input === 'object' && input !== null && !Array.isArray(input);
  // A null prototype keeps inherited names such as "constructor" from being read as fields.
  const payload: Record<string, unknown> = Object.assign(
    Object.create(null),
    isObject ? input : {},
  );
  const written = (key: string) => (typeof payload[key] === 'string' ? payload[key] : '');
  const text = prepareText(written('title'), written('description'));
  const { namesProperty, ...read } = extractFacts(payload, text);
  const { deal_type: deal, price, language, phones } = read;
  const reason = explainRejection({
    folded: text.folded,
    namesProperty,
    hasFacts: deal !== null || price !== null || read.area_total !== null,
    isStructured: readPayloadFields(payload).choice('deal_type', DEALS) !== null && price !== null,
  });
  if (reason !== null) {
    // All facts are null except those that the next statements set.
    const nothing = Object.fromEntries(Object.keys(read).map((key) => [key, null])) as NullFacts;
    const texts = { title: null, summary: null };
    return { is_listing: false, reason, ...nothing, ...texts, language, phones, features: [] };
  }
  return {
    is_listing: true,
    reason: null,
    ...read,
    title: cleanTitle(text.title) ?? composeTitle(read),
    summary: composeSummary(read),
  };
}

/** Search criteria in a text. Criteria that the text does not contain are null. */
export type SearchCriteria = {
  language: Language;
  /** Whether the text names a property. */
  namesProperty: boolean;
  deal_type: DealType | null;
  property_type: PropertyType | null;
  price: number | null;
  currency: string | null;
  city: string | null;
  district: string | null;
  rooms: number | null;
  /** Total area in square metres. */
  area_total: number | null;
  features: readonly string[];
};

/** Reads search criteria from a text, with the same rules as for listings. */
export function extractSearchCriteria(text: string): SearchCriteria {
  return extractFacts({}, prepareText('', text));
}
