import { normalizePhone, readContactName, readPhones, withoutPhones } from './contacts.ts';
import { readFeatures } from './features.ts';
import {
  type DealType,
  dealTypeOfPrice,
  type PropertyType,
  readDealType,
  readPropertyType,
} from './kinds.ts';
import { type Language, readLanguage } from './language.ts';
import { spellOutNumbers } from './numbers.ts';
import { canonicalCity, readAddress, readPlace } from './places.ts';
import { currencyOfPrice, type Price, readPrice } from './price.ts';
import { whyNoListing } from './relevance.ts';
import { readAreas, readFloors, readRooms, readYearBuilt } from './sizes.ts';
import { cleanTitle, composeSummary, composeTitle } from './summary.ts';
import { clean, fold, rule } from './text.ts';

/** A payload may hold 50,000 characters (Contract 4); the facts stand well before this. */
const MAX_TEXT = 20_000;
const MAX_TITLE = 500;
const MAX_PHONES = 10;
const MAX_AREA = 10_000_000;
/** Forms that demand a price get 1 from people who do not want to name one. */
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

/** One listing's text in the forms that the rules need. */
type ListingText = {
  title: string;
  /** Title and description, a line each, cleaned; case stays for names and addresses. */
  written: string;
  /** The same folded, with numbers as digits and without phone numbers. */
  foldedTitle: string;
  folded: string;
};

const EURO_FLAT = rule(String.raw`(?<!\p{L})[єе]вро-?(?=(?:одн|дв|тр)\p{L})`, 'gu');

/** Folds for the rules: "евродвушка" is a "двушка", and "єтаж" an "этаж". */
const forRules = (cleaned: string): string =>
  spellOutNumbers(fold(withoutPhones(cleaned)).replace(EURO_FLAT, '').replaceAll('єтаж', 'этаж'));

/** Prepares a title and description, either of which may be empty. */
export function readText(rawTitle: string, rawDescription: string): ListingText {
  const title = clean(rawTitle, MAX_TITLE).replace(/\s+/gu, ' ').trim();
  const description = clean(rawDescription, MAX_TEXT).trim();
  const foldedTitle = forRules(title);
  return {
    title,
    written: `${title}\n${description}`.trim(),
    foldedTitle,
    folded: `${foldedTitle}\n${forRules(description)}`.trim(),
  };
}

/** Reads the fields that a payload gives itself; implausible ones count as absent. */
function hintsIn(payload: Record<string, unknown>) {
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

type Hints = ReturnType<typeof hintsIn>;

function findPrice(hints: Hints, folded: string, read: Price): Price {
  const price = hints.number('price', MIN_PRICE, Number.MAX_SAFE_INTEGER);
  if (price !== null) {
    const currency = hints.currency ?? currencyOfPrice(folded, price) ?? read.currency;
    return { price, currency };
  }
  return read.price === null ? read : { ...read, currency: read.currency ?? hints.currency };
}

function findRooms(folded: string, type: PropertyType | null): number | null {
  if (type === 'room') return 1;
  return type === 'land' || type === 'garage' ? null : readRooms(folded);
}

/** Reads the facts about a property, whether a text offers one or looks for one. A new field is one line here. */
export function readFacts(payload: Record<string, unknown>, text: ListingText) {
  const { folded, foldedTitle, written } = text;
  const hints = hintsIn(payload);
  const saidDeal = hints.choice('deal_type', DEALS) ?? readDealType(foldedTitle, folded);
  const namedType =
    hints.choice('property_type', PROPERTIES) ?? readPropertyType(foldedTitle, folded);
  const { price, currency } = findPrice(hints, folded, readPrice(folded, saidDeal, namedType));
  const rooms = hints.integer('rooms', 1, 100) ?? findRooms(folded, namedType);
  const type = namedType ?? (rooms === null ? null : 'apartment');
  const areas = readAreas(folded, namedType);
  const floors = readFloors(folded, type);
  const city = hints.text('city');
  const place = readPlace(written, folded, city === null ? null : canonicalCity(city));
  const phones = [...hints.phones.filter((phone) => phone !== null), ...readPhones(written)];
  return {
    namesProperty: namedType !== null || rooms !== null,
    language: readLanguage(folded),
    deal_type: saidDeal ?? dealTypeOfPrice(price, currency),
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
    contact_name: hints.text('contact_name') ?? readContactName(withoutPhones(written)),
    phones: [...new Set(phones)].slice(0, MAX_PHONES),
    features: readFeatures(folded),
  };
}

/**
 * The answer of the rules: the city is in the Ukrainian nominative where it is known, phones are `+` and digits, areas
 * are in square metres, and features are sorted slugs.
 */
export type ReadListing = Omit<ReturnType<typeof readFacts>, 'namesProperty'> & {
  is_listing: boolean;
  reason: string | null;
  title: string | null;
  summary: string | null;
};

type Nothing = Record<
  Exclude<keyof ReadListing, 'is_listing' | 'reason' | 'language' | 'phones' | 'features'>,
  null
>;

/**
 * Reads a listing out of a payload by rules (Contract 4, Model). Plausible fields of the payload go before its text.
 * Instructions inside a text are text like any other.
 * @param input Any JSON value; none throws.
 */
export function readListing(input: unknown): ReadListing {
  const isObject = typeof input === 'object' && input !== null && !Array.isArray(input);
  // A null prototype keeps inherited names such as "constructor" from being read as fields.
  const payload: Record<string, unknown> = Object.assign(
    Object.create(null),
    isObject ? input : {},
  );
  const written = (key: string) => (typeof payload[key] === 'string' ? payload[key] : '');
  const text = readText(written('title'), written('description'));
  const { namesProperty, ...read } = readFacts(payload, text);
  const { deal_type: deal, price, language, phones } = read;
  const reason = whyNoListing({
    folded: text.folded,
    namesProperty,
    hasFacts: deal !== null || price !== null || read.area_total !== null,
    isStructured: hintsIn(payload).choice('deal_type', DEALS) !== null && price !== null,
  });
  if (reason !== null) {
    // Each fact is null or one of the four that follow.
    const nothing = Object.fromEntries(Object.keys(read).map((key) => [key, null])) as Nothing;
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

/** Search criteria as far as a text gives them; unknown ones null. */
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
  /** In square metres. */
  area_total: number | null;
  features: readonly string[];
};

/** Reads search criteria by the rules that read listings. */
export function readSearchCriteria(text: string): SearchCriteria {
  return readFacts({}, readText('', text));
}
