import { type City, pickCity, STREETS, type Language, VOCABULARY, getWord } from './words.ts';
import { createRandom, type Random } from './random.ts';

/** Generated listing; payloads omit null fields. */
export type GeneratedListing = {
  source_slug: string;
  external_id: string;
  url: string;
  title: string;
  description: string;
  language: Language;
  deal_type: 'sale' | 'rent' | 'daily_rent';
  property_type: string;
  price: number;
  currency: string;
  city: string;
  district: string | null;
  address: string;
  rooms: number;
  area_total: number;
  area_kitchen: number | null;
  floor: number;
  floors_total: number;
  latitude: number;
  longitude: number;
  contact_name: string;
  phones: string[];
  features: string[];
  published_at: string;
  /** Index of the earlier listing that this one duplicates; null for an original. */
  copy_of: number | null;
};

/** Generator settings. The same settings give the same listings. */
export type Generator = {
  seed: number;
  /** Share of listings that duplicate an earlier one; 0 by default. */
  duplicates?: number;
};

/** Number of sources, over which the listings are spread evenly. */
export const SOURCES = 100;

const KINDS = {
  apartment: { uk: 'квартиру', en: 'flat', share: 0.7 },
  house: { uk: 'будинок', en: 'house', share: 0.18 },
  room: { uk: 'кімнату', en: 'room', share: 0.12 },
} as const;
const DEALS = {
  sale: { uk: 'Продам', en: 'For sale:', share: 0.5 },
  rent: { uk: 'Здам в оренду', en: 'To let:', share: 0.4 },
  daily_rent: { uk: 'Здам подобово', en: 'Daily rent:', share: 0.1 },
} as const;
const ROOMS = ['однокімнатну', 'двокімнатну', 'трикімнатну', 'чотирикімнатну'];
const FEATURES = ['balcony', 'furnished', 'parking', 'lift', 'terrace', 'pets allowed'];
const NAMES = ['Оксана', 'Тарас', 'Ганна', 'Богдан', 'Мар’яна', 'Юрій'];

/** Latest publication date. Listings are published in the year before it. */
const NEWEST = Date.UTC(2026, 5, 1);
const DAY_MS = 24 * 60 * 60 * 1000;

/** Returns the listing at the given index of the generated sequence. */
export function createListing(
  { seed, duplicates = 0 }: Generator,
  index: number,
): GeneratedListing {
  const random = createRandom(seed, index);
  const isCopy = index > 0 && random.chance(duplicates);
  const originalIndex = isCopy ? random.below(index) : null;
  const source = `source-${String(index % SOURCES).padStart(2, '0')}`;
  const ownFields = {
    source_slug: source,
    external_id: `flat-${index}`,
    url: `https://${source}.example.test/flats/${index}`,
    published_at: new Date(NEWEST - random.below(365) * DAY_MS).toISOString(),
  };
  if (originalIndex === null) return { ...makeHome(random), ...ownFields, copy_of: null };
  const original = createListing({ seed }, originalIndex);
  const description = `${original.description} ${createSentence(random, original.language)}`;
  const price = Math.round(original.price * (0.98 + 0.04 * random.next()));
  return { ...original, ...ownFields, description, price, copy_of: originalIndex };
}

function makeHome(
  random: Random,
): Omit<GeneratedListing, 'source_slug' | 'external_id' | 'url' | 'published_at' | 'copy_of'> {
  const language: Language = random.chance(0.85) ? 'uk' : 'en';
  const deal = pickByShare(random, DEALS);
  const kind = pickByShare(random, KINDS);
  const city = pickCity(random);
  const rooms = kind === 'room' ? 1 : random.between(1, 4);
  const size = Math.round((18 + rooms * 17 + 12 * random.next()) * 10) / 10;
  const floorsTotal = kind === 'house' ? random.between(1, 3) : random.between(2, 25);
  const home = {
    language,
    deal_type: deal,
    property_type: kind,
    price: computePrice(random, deal, size),
    currency: deal === 'sale' ? 'USD' : 'UAH',
    city: city.name,
    district: city.districts.length === 0 ? null : random.pick(city.districts),
    address: `вул. ${random.pick(STREETS)}, ${random.between(1, 180)}`,
    rooms,
    area_total: size,
    area_kitchen: random.chance(0.6) ? random.between(6, 16) : null,
    floor: random.between(1, floorsTotal),
    floors_total: floorsTotal,
    latitude: moveNear(random, city.latitude),
    longitude: moveNear(random, city.longitude),
    contact_name: random.pick(NAMES),
    phones: [`+380 00 ${random.between(100, 999)} ${random.between(1000, 9999)}`],
    features: FEATURES.filter(() => random.chance(0.3)),
  };
  const [title, facts] =
    language === 'uk' ? describeInUkrainian(home, city) : describeInEnglish(home, city);
  const sentences = Array.from({ length: random.between(4, 10) }, () =>
    createSentence(random, language),
  );
  return { ...home, title, description: [facts, ...sentences].join(' ') };
}

type Home = Pick<
  GeneratedListing,
  'deal_type' | 'rooms' | 'address' | 'area_total' | 'floor' | 'floors_total' | 'price' | 'currency'
> & { property_type: keyof typeof KINDS };

function describeInUkrainian(home: Home, city: City): [title: string, facts: string] {
  const rooms = home.property_type === 'room' ? '' : `${ROOMS[home.rooms - 1]} `;
  const offer = `${DEALS[home.deal_type].uk} ${rooms}${KINDS[home.property_type].uk} у ${city.locative}`;
  const money = home.currency === 'USD' ? 'дол.' : 'грн';
  return [
    offer,
    `${offer}, ${home.address}. Площа ${home.area_total} м², ${home.floor} поверх з ` +
      `${home.floors_total}. Ціна ${home.price} ${money}`,
  ];
}

function describeInEnglish(home: Home, city: City): [title: string, facts: string] {
  const kind = KINDS[home.property_type].en;
  const offer = `${DEALS[home.deal_type].en} ${home.rooms}-room ${kind} in ${city.english}`;
  return [
    offer,
    `${offer}, ${home.address}. Area ${home.area_total} m², floor ${home.floor} of ` +
      `${home.floors_total}. Price ${home.price} ${home.currency}`,
  ];
}

function createSentence(random: Random, language: Language): string {
  const words = Array.from({ length: random.between(4, 9) }, () =>
    getWord(language, random.rank(VOCABULARY)),
  );
  const [first = '', ...following] = words;
  return `${first.charAt(0).toUpperCase()}${first.slice(1)} ${following.join(' ')}.`;
}

function computePrice(random: Random, deal: GeneratedListing['deal_type'], area: number): number {
  const pricePerSquareMetre = { sale: 900, rent: 250, daily_rent: 25 }[deal];
  return Math.round((pricePerSquareMetre * area * (0.6 + random.next() * 0.9)) / 10) * 10;
}

function moveNear(random: Random, degrees: number): number {
  return Math.round((degrees + 0.05 * random.normal()) * 1e5) / 1e5;
}

function pickByShare<Key extends string>(
  random: Random,
  shares: Readonly<Record<Key, { share: number }>>,
): Key {
  // `Object.keys` returns strings, but the record has only the keys of its type.
  const keys = Object.keys(shares) as Key[];
  let remainingShare = random.next();
  return keys.find((key) => (remainingShare -= shares[key].share) < 0) ?? random.pick(keys);
}

/** Payload of a source (Contract 4, PayloadSchema). */
export type Payload = { source_slug: string; external_id: string; description: string } & Record<
  string,
  unknown
>;

/** Returns the payload of the listing at the given index, without null fields. */
export function createListingPayload(generator: Generator, index: number): Payload {
  const { copy_of: _, language, features, ...fields } = createListing(generator, index);
  const entries = Object.entries(fields).filter(([, value]) => value !== null);
  // The payload has all required fields, because they are never null.
  return { ...(Object.fromEntries(entries) as Payload), attributes: { language, features } };
}

/**
 * Returns payloads whose only content is a description and images, so that the model must read all facts from the
 * text.
 */
export function createTextPayloads(
  count: number,
  generator: Generator,
  {
    host = '',
    imagesPerListing = 0,
  }: { host?: string | undefined; imagesPerListing?: number } = {},
): Payload[] {
  return Array.from({ length: count }, (_, index) => {
    const { source_slug, external_id, description } = createListing(generator, index);
    const addresses = Array.from(
      { length: imagesPerListing },
      (_none, image) => `${host}/${index}/${image}`,
    );
    const images = imagesPerListing === 0 ? {} : { image_urls: addresses };
    return { source_slug, external_id, description, ...images };
  });
}
