import { readAddress } from './address.ts';
import { readAreas, readLandArea } from './areas.ts';
import type { Areas } from './areas.ts';
import { readContactName } from './contact.ts';
import { currencyHint } from './currency.ts';
import { dealTypeOfPrice, readDealType } from './deal-type.ts';
import { readFeatures } from './features.ts';
import { readFloors, readYearBuilt } from './floors.ts';
import { readLanguage } from './language.ts';
import type { ListingText } from './listing-text.ts';
import { readText } from './listing-text.ts';
import type { Payload } from './payload.ts';
import { asPayload, choiceHint, integerHint, numberHint, textHint } from './payload.ts';
import { normalizePhone, readPhones, withoutPhones } from './phones.ts';
import { canonicalCity, readPlace } from './places.ts';
import { currencyOfPrice, readPrice } from './price.ts';
import type { Price } from './price.ts';
import { readPropertyType } from './property-type.ts';
import { whyNoListing } from './relevance.ts';
import { readRooms } from './rooms.ts';
import { composeSummary, composeTitle } from './summary.ts';
import { cleanTitle } from './title.ts';
import type { DealType, Language, PropertyType } from './types.ts';

const DEALS = ['sale', 'rent', 'daily_rent'] as const;
const PROPERTIES = ['apartment', 'house', 'room', 'land', 'commercial', 'garage'] as const;

/** Homes whose rooms are counted. A rented room is one. */
const WITH_ROOMS: ReadonlySet<PropertyType | null> = new Set([
  'apartment',
  'house',
  'commercial',
  null,
]);
const MAX_PHONES = 10;
const MAX_AREA = 10_000_000;
/** Forms that demand a price get 1 from people who do not want to name one. */
const LEAST_PRICE_HINT = 2;

function rawText(payload: Payload, key: string): string {
  const value = payload[key];
  return typeof value === 'string' ? value : '';
}

function findPrice(
  payload: Payload,
  folded: string,
  deal: DealType | null,
  type: PropertyType | null,
): Price {
  const hint = numberHint(payload, 'price', LEAST_PRICE_HINT, Number.MAX_SAFE_INTEGER);
  const read = readPrice(folded, deal, type);
  const currency = currencyHint(payload.currency);
  if (hint === null)
    return {
      price: read.price,
      currency: read.price === null ? null : (read.currency ?? currency),
    };
  return { price: hint, currency: currency ?? currencyOfPrice(folded, hint) ?? read.currency };
}

function findRooms(payload: Payload, folded: string, type: PropertyType | null): number | null {
  const hint = integerHint(payload, 'rooms', 1, 100);
  if (hint !== null) return hint;
  if (type === 'room') return 1;
  return WITH_ROOMS.has(type) ? readRooms(folded) : null;
}

function findAreas(payload: Payload, folded: string, type: PropertyType | null): Areas {
  const read =
    type === 'land'
      ? { total: readLandArea(folded), living: null, kitchen: null }
      : readAreas(folded, type);
  const hint = (key: string): number | null => numberHint(payload, key, 0.1, MAX_AREA);
  return {
    total: hint('area_total') ?? read.total,
    living: hint('area_living') ?? read.living,
    kitchen: hint('area_kitchen') ?? read.kitchen,
  };
}

function findPhones(payload: Payload, text: ListingText): string[] {
  const given = Array.isArray(payload.phones) ? payload.phones.slice(0, MAX_PHONES) : [];
  const hints = given.map((phone) => (typeof phone === 'string' ? normalizePhone(phone) : null));
  const all = [...hints.filter((phone) => phone !== null), ...readPhones(text.written)];
  return [...new Set(all)].slice(0, MAX_PHONES);
}

/**
 * A listing as the rules read it: the city is in the Ukrainian nominative where the gazetteer knows it,
 * phones are `+` and digits, and features are sorted slugs out of `FEATURE_SLUGS`.
 */
export type ReadListing = Omit<ReturnType<typeof readFacts>, 'namesProperty'> & {
  is_listing: boolean;
  reason: string | null;
  title: string | null;
  summary: string | null;
};

/** The facts of a text that offers no property. */
type Nothing = Record<
  Exclude<keyof ReadListing, 'is_listing' | 'reason' | 'language' | 'phones' | 'features'>,
  null
>;

/**
 * Reads one listing out of a payload by rules, as the mock language model does (Contract 4, Model).
 * Facts come from the title and description; fields that the payload gives itself, when plausible,
 * stand before what the text says. Instructions inside a text are text like any other.
 *
 * @param input The payload as the collector sends it; any JSON value is understood, none throws.
 * @returns The facts; areas in square metres, unknown ones null.
 */
export function readListing(input: unknown): ReadListing {
  const payload = asPayload(input);
  const text = readText(rawText(payload, 'title'), rawText(payload, 'description'));
  const { namesProperty, ...read } = readFacts(payload, text);
  const { deal_type: deal, price, language, phones } = read;
  const reason = whyNoListing({
    folded: text.folded,
    namesProperty,
    hasFacts: deal !== null || price !== null || read.area_total !== null,
    isStructured: choiceHint(payload, 'deal_type', DEALS) !== null && price !== null,
  });
  if (reason !== null) {
    // Each fact is known to be null or one of the four that follow.
    const nothing = Object.fromEntries(Object.keys(read).map((key) => [key, null])) as Nothing;
    const texts = { title: null, summary: null };
    return { is_listing: false, reason, ...nothing, ...texts, language, phones, features: [] };
  }
  const facts = { is_listing: true, reason: null, ...read };
  return {
    ...facts,
    title: cleanTitle(text.title) ?? composeTitle(facts),
    summary: composeSummary(facts),
  };
}

/** What a text says of a property, whether it offers one or looks for one. */
export function readFacts(payload: Payload, text: ListingText) {
  const { folded, foldedTitle, written } = text;
  const saidDeal = choiceHint(payload, 'deal_type', DEALS) ?? readDealType(foldedTitle, folded);
  const namedType =
    choiceHint(payload, 'property_type', PROPERTIES) ?? readPropertyType(foldedTitle, folded);
  const { price, currency } = findPrice(payload, folded, saidDeal, namedType);
  const rooms = findRooms(payload, folded, namedType);
  const areas = findAreas(payload, folded, namedType);
  const type = namedType ?? (rooms === null ? null : 'apartment');
  const cityHint = textHint(payload, 'city');
  const place = readPlace(written, folded, cityHint === null ? null : canonicalCity(cityHint));
  const floors = readFloors(folded, type);
  return {
    namesProperty: namedType !== null || rooms !== null,
    language: readLanguage(folded),
    deal_type: saidDeal ?? dealTypeOfPrice(price, currency),
    property_type: type,
    price,
    currency,
    city: place.city,
    district: textHint(payload, 'district') ?? place.district,
    address: textHint(payload, 'address') ?? readAddress(written),
    rooms,
    area_total: areas.total,
    area_living: areas.living,
    area_kitchen: areas.kitchen,
    floor: integerHint(payload, 'floor', -5, 200) ?? floors.floor,
    floors_total: integerHint(payload, 'floors_total', 1, 200) ?? floors.total,
    year_built: integerHint(payload, 'year_built', 1500, 2100) ?? readYearBuilt(folded),
    contact_name: textHint(payload, 'contact_name') ?? readContactName(withoutPhones(written)),
    phones: findPhones(payload, text),
    features: readFeatures(folded),
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
