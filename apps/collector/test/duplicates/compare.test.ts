import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import fc from 'fast-check';
import type { ComparedImage, ComparedListing } from '../../src/duplicates/candidates.ts';
import { compareListings, MIN_DUPLICATE_SCORE } from '../../src/duplicates/compare.ts';
import { findComponents, type DuplicatePair } from '../../src/duplicates/groups.ts';
import { resolvePlaces } from '../../src/places/gazetteer.ts';
import { getPlaceKeys, resolveListingPlace } from '../../src/places/listing-place.ts';
import { normalizeText } from '../../src/text.ts';

let listingCount = 0;

/** Creates a listing to compare, which has only the given facts. */
function createListing(facts: Partial<ComparedListing>): ComparedListing {
  listingCount += 1;
  const city = facts.city ?? null;
  return {
    id: listingCount,
    archived_at: null,
    language: null,
    deal_type: 'sale',
    property_type: null,
    city,
    city_key: city === null ? null : normalizeText(city),
    district: null,
    place_path: null,
    address: null,
    rooms: null,
    area_total: null,
    floor: null,
    floors_total: null,
    latitude: null,
    longitude: null,
    price: null,
    currency: null,
    amount: null,
    prices: [],
    phones: [],
    images: [],
    ...facts,
    text: normalizeText(facts.text ?? ''),
  };
}

/** Creates an image for each number. With `copy`, its bytes differ and its fingerprint differs slightly. */
function createImages(imageNumbers: readonly number[], copy = ''): ComparedImage[] {
  return imageNumbers.map((number) => {
    const fingerprint = BigInt.asIntN(64, BigInt(number) * 0x9e3779b97f4a7c15n);
    return {
      sha256: `${number}${copy}`,
      fingerprint: copy === '' ? fingerprint : fingerprint ^ 5n,
    };
  });
}

const FRANKA_FLAT = {
  city: 'Львів',
  district: 'Галицький',
  address: 'вул. Івана Франка, 61',
  rooms: 2,
  area_total: 54.3,
  floor: 3,
  floors_total: 5,
  price: 87_000,
  currency: 'USD',
  phones: ['+380 00 111 22 33'],
  text: `Продається двокімнатна квартира на вулиці Франка. Австрійський будинок, високі стелі, дубовий
    паркет, дві окремі кімнати, кухня 9 метрів, індивідуальне опалення. Вікна виходять у тихе подвір'я.
    Поруч парк, школа і зупинка трамвая. Документи готові до продажу, ключі на руках.`,
  images: createImages([1, 2, 3, 4, 5, 6]),
} satisfies Partial<ComparedListing>;

/** Description of `FRANKA_FLAT` by a different agency. */
const FRANKA_REWRITTEN_TEXT = `Простора двушка в самому центрі Львова, історична забудова, ліпнина збережена.
  Сонячна вітальня, тиха спальня, нова сантехніка. Власник розглядає торг для реального покупця,
  телефонуйте в будь-який час, покажемо сьогодні.`;

const OBOLON_FLAT = {
  city: 'Київ',
  district: 'Оболонський район',
  rooms: 1,
  area_total: 36,
  floor: 7,
  floors_total: 16,
  price: 14_500,
  currency: 'UAH',
  deal_type: 'rent',
  text: `Здам однокімнатну квартиру біля метро Мінська на тривалий термін. Є холодильник, пральна машина,
    диван, шафа, швидкий інтернет. Чистий під'їзд, консьєрж, паркування у дворі. Без тварин. Комунальні
    за лічильниками, перший і останній місяць наперед.`,
  images: createImages([11, 12, 13]),
} satisfies Partial<ComparedListing>;

/** Flat of a developer, who uses the same text and drawings for many flats. */
const DEVELOPER_FLAT = {
  city: 'Одеса',
  district: 'Приморський',
  address: 'Фонтанська дорога, 118',
  rooms: 1,
  area_total: 41.2,
  floor: 9,
  floors_total: 24,
  price: 58_000,
  currency: 'USD',
  phones: ['+380 00 999 00 00'],
  text: `Квартира у новому житловому комплексі біля моря від забудовника. Закрита територія, підземний
    паркінг, дитячі майданчики, власна котельня. Здача будинку наступного літа, розтермінування без
    відсотків. Телефонуйте у відділ продажу, підберемо планування для вас.`,
  images: createImages([21, 22, 23]),
} satisfies Partial<ComparedListing>;

const POLTAVA_HOUSE = {
  city: 'Полтава',
  rooms: 4,
  area_total: 118,
  price: 72_000,
  currency: 'USD',
  text: `Дом в тихом районе Полтавы, участок шесть соток, сад, гараж, летняя кухня. Газ, вода, септик,
    интернет. Ремонт сделан три года назад, мебель остаётся. Рядом школа и магазин, до центра пятнадцать
    минут на автобусе. Торг возможен после осмотра.`,
  images: createImages([31, 32, 33, 34]),
} satisfies Partial<ComparedListing>;

/** Inserts the words about one flat into the template of an agency. */
const formatDescription = (
  words: string,
) => `Пропонуємо до вашої уваги ${words}. Квартира у гарному стані, заходь і
  живи. Розвинена інфраструктура, поруч магазини, школа, дитячий садок, транспорт. Дзвоніть, відповімо на
  всі запитання, перегляд у зручний для вас час. Агентство працює без вихідних.`;

const AGENCY_FLAT = {
  city: 'Харків',
  rooms: 2,
  area_total: 46,
  floor: 4,
  floors_total: 9,
  price: 31_000,
  currency: 'USD',
  phones: ['+380 00 555 66 77'],
  text: formatDescription('двокімнатну квартиру на Салтівці'),
  // Image 40 is the agency's logo, which its other listings show too.
  images: createImages([40, 41, 42, 43, 44]),
} satisfies Partial<ComparedListing>;

type Facts = Partial<ComparedListing>;
type Pair = [title: string, listing: Facts, changes: Facts];

const OTHER_AGENCY_CHANGES = { text: FRANKA_REWRITTEN_TEXT, phones: [] } satisfies Facts;
const FRANKA_WITHOUT_ADDRESS = { ...FRANKA_FLAT, address: null } satisfies Facts;

/** Pairs of listings of the same property. The second listing is the first with changes. */
const SAME_PROPERTY_PAIRS: Pair[] = [
  ['the same text on another site', FRANKA_FLAT, { images: [] }],
  ['posted again under another id, unchanged', POLTAVA_HOUSE, {}],
  ['posted again for less', POLTAVA_HOUSE, { price: 65_000 }],
  [
    'listed by another agency: own words, own images, another price',
    FRANKA_FLAT,
    { ...OTHER_AGENCY_CHANGES, price: 92_000, images: createImages([71, 72]) },
  ],
  [
    'the address in other words, the area rounded',
    FRANKA_FLAT,
    { address: 'Франка 61, кв. 12', area_total: 54, price: 88_000, district: null },
  ],
  [
    'copied images in another size, nothing else in common',
    FRANKA_FLAT,
    {
      text: FRANKA_REWRITTEN_TEXT,
      address: null,
      images: createImages([1, 2, 3, 4], 'small'),
      price: 90_000,
    },
  ],
  [
    'copied images, and a price in another currency',
    POLTAVA_HOUSE,
    { text: '', price: 2_980_000, currency: 'UAH', images: createImages([31, 32, 33], 'small') },
  ],
  [
    'a copied text, of which the floor is left out',
    OBOLON_FLAT,
    { floor: null, floors_total: null, images: [] },
  ],
  [
    'a copied text with another beginning',
    OBOLON_FLAT,
    { text: `Терміново! Від власника! ${OBOLON_FLAT.text}`, images: [], price: 15_000 },
  ],
  [
    'a rewritten text with most of the images',
    OBOLON_FLAT,
    {
      text: `Оренда, Оболонь, гарна однушка поряд з метро, меблі та техніка, власник, комісії немає`,
      images: createImages([11, 12], 'small'),
    },
  ],
  ['the same flat of a developer on two sites', DEVELOPER_FLAT, { phones: [] }],
  [
    'coordinates in place of the address',
    { ...FRANKA_WITHOUT_ADDRESS, latitude: 49.8321, longitude: 24.0289 },
    {
      latitude: 49.83212,
      longitude: 24.02893,
      images: createImages([1, 2], 'small'),
      text: FRANKA_REWRITTEN_TEXT,
    },
  ],
  [
    'an agency changes its words, and keeps the images',
    AGENCY_FLAT,
    { text: formatDescription('затишну двокімнатну квартиру поруч з метро'), price: 29_900 },
  ],
  [
    'only text and price are known',
    { ...POLTAVA_HOUSE, images: [], area_total: null },
    { images: createImages([31, 32]), phones: ['+380 00 1'] },
  ],
];

/** Pairs of listings of different properties. */
const DIFFERENT_PROPERTY_PAIRS: Pair[] = [
  [
    'a flat and its garage',
    { ...FRANKA_FLAT, property_type: 'apartment' },
    { property_type: 'garage' },
  ],
  ['for sale and for rent', FRANKA_FLAT, { deal_type: 'rent', price: 600 }],
  ['for a month and for a day', OBOLON_FLAT, { deal_type: 'daily_rent' }],
  ['for sale and for rent, at one price', POLTAVA_HOUSE, { deal_type: 'rent' }],
  ['other floors of one building', DEVELOPER_FLAT, { floor: 12 }],
  ['other areas on one floor', DEVELOPER_FLAT, { area_total: 44.9 }],
  [
    'two flats on one landing, alike but for half a metre',
    { ...FRANKA_FLAT, images: createImages([1, 2]), text: FRANKA_REWRITTEN_TEXT },
    { text: FRANKA_FLAT.text, area_total: 54.8, images: createImages([81, 82]), price: 86_000 },
  ],
  ['one room more', DEVELOPER_FLAT, { rooms: 2 }],
  ['the same text in another city', DEVELOPER_FLAT, { city: 'Миколаїв' }],
  [
    'neighbouring buildings of a developer',
    { ...DEVELOPER_FLAT, images: [], phones: [] },
    { address: 'Фонтанська дорога, 120', area_total: 41 },
  ],
  [
    'an agency with one template, one logo and two flats of one shape',
    AGENCY_FLAT,
    {
      text: formatDescription('простору квартиру на Олексіївці'),
      images: createImages([40, 51, 52, 53]),
      price: 33_000,
      district: 'Шевченківський',
    },
  ],
  [
    'one shape, one price, other streets',
    { ...AGENCY_FLAT, address: 'просп. Науки, 12', images: [], phones: [] },
    { address: 'вул. Академіка Павлова, 140' },
  ],
  [
    'one shape in a common district, each in its own words',
    { ...FRANKA_WITHOUT_ADDRESS, area_total: 54, images: [], phones: [] },
    { ...OTHER_AGENCY_CHANGES, images: createImages([91, 92]) },
  ],
  [
    'one image of the building, other flats',
    {
      ...FRANKA_FLAT,
      address: 'вул. Франка',
      text: '',
      images: createImages([1, 2, 3]),
      floor: null,
    },
    {
      floor: FRANKA_FLAT.floor,
      area_total: 55,
      images: createImages([1, 101, 102]),
      text: FRANKA_REWRITTEN_TEXT,
      price: 99_000,
    },
  ],
  [
    'images of one colour',
    { ...AGENCY_FLAT, phones: [], text: '', images: [{ sha256: 'a', fingerprint: 0n }] },
    { images: [{ sha256: 'b', fingerprint: 0n }] },
  ],
  [
    'one address, other houses kilometres apart by their coordinates',
    { ...POLTAVA_HOUSE, latitude: 49.5883, longitude: 34.5514 },
    { latitude: 49.6283, longitude: 34.5014 },
  ],
  [
    'half the price',
    { ...POLTAVA_HOUSE, images: [] },
    { price: 140_000, text: formatDescription('дім з садом у Полтаві') },
  ],
  ['nothing known but a city and a price', { city: 'Київ', price: 1 }, {}],
  ['nothing known at all', {}, {}],
];

/** All pairs of listings, labelled by hand as the same property or different ones. */
const GOLDEN_PAIRS = [
  ...SAME_PROPERTY_PAIRS.map((pair) => ({ pair, isSame: true })),
  ...DIFFERENT_PROPERTY_PAIRS.map((pair) => ({ pair, isSame: false })),
].map(({ pair: [title, facts, changes], isSame }) => ({
  title,
  isSame,
  listings: [createListing(facts), createListing({ ...facts, ...changes })] as const,
}));

test('The threshold separates the golden pairs with a margin', () => {
  for (const threshold of [-0.02, 0, 0.02].map((margin) => MIN_DUPLICATE_SCORE + margin)) {
    for (const { title, isSame, listings } of GOLDEN_PAIRS) {
      const { score } = compareListings(...listings) ?? { score: 0 };
      assert.equal(score >= threshold, isSame, `${title}: ${score}`);
    }
  }
});

test('Known places decide whether cities and districts are the same', () => {
  const comparePlaces = (
    namesA: Parameters<typeof resolvePlaces>[0],
    namesB: Parameters<typeof resolvePlaces>[0],
  ) => {
    const [a, b] = [namesA, namesB].map((names) => {
      const [place] = resolvePlaces(names);
      const place_path = place === undefined ? null : [...place.path];
      const { city, district = null } = names;
      const facts = { ...FRANKA_FLAT, address: null, images: [] };
      return createListing({ ...facts, city, district, place_path });
    });
    assert.ok(a !== undefined && b !== undefined);
    const comparison = compareListings(a, b);
    return comparison?.reasons.find(({ reason }) => reason === 'place')?.detail ?? comparison;
  };
  assert.equal(
    comparePlaces({ city: 'Львів', district: 'Сихів' }, { city: 'Lwów', district: 'Sykhiv' }),
    'same district',
  );
  assert.equal(
    comparePlaces({ city: 'Львів', district: 'Сихів' }, { city: 'Львов', district: 'Сыховский' }),
    'same district',
  );
  assert.equal(
    comparePlaces({ city: 'Львів', district: 'Сихів' }, { city: 'Львів', district: 'Левандівка' }),
    'another district',
  );
  assert.equal(
    comparePlaces({ city: 'Миколаїв' }, { city: 'Миколаїв', address: 'Львівська область' }),
    undefined,
  );
  for (const city of ['Вигадане', 'Вигадане, Львівська область']) {
    assert.equal(comparePlaces({ city }, { city: 'Львів' }), undefined, city);
  }
});

type Advert = Partial<Omit<ComparedListing, 'images'>> & {
  property: string;
  case: string;
  text: string;
  images: string[];
};

/** Neighbourhoods of labelled listings: adverts of one property, and of others that are easily taken for it. */
const NEIGHBOURHOODS = readFileSync(
  new URL('../../../../samples/duplicates/listings.jsonl', import.meta.url),
  'utf8',
)
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as { name: string; listings: Advert[] });

const HRYVNIAS: Record<string, number> = { UAH: 1, USD: 41.2, EUR: 44.8 };

/** Creates the listing of an advert with the place that the pipeline would resolve. */
function createAdvertListing({ city = null, district = null, ...advert }: Advert): ComparedListing {
  const { address = null, price = null, currency = null, text: description } = advert;
  const place = resolveListingPlace({ city, district, address, title: null, description });
  return createListing({
    ...advert,
    city: place.city,
    city_key: getPlaceKeys(place).city_key,
    district: place.district,
    place_path: place.columns.place_path,
    amount: price === null ? null : price * (HRYVNIAS[currency ?? ''] ?? NaN),
    images: advert.images.map((fingerprint) => ({
      sha256: fingerprint,
      fingerprint: BigInt.asIntN(64, BigInt(`0x${fingerprint}`)),
    })),
  });
}

/** Counts the pairs of listings of a neighbourhood by label, and by whether a score or a group joins them. */
function countPairs(adverts: readonly Advert[]) {
  const listings = adverts.map(createAdvertListing);
  const pairs = listings.flatMap((a, index) =>
    listings.slice(index + 1).map((b, offset) => {
      const isSame = adverts[index]?.property === adverts[index + 1 + offset]?.property;
      const score = compareListings(a, b)?.score ?? 0;
      return { ids: [a.id, b.id] as const, isSame, isPair: score >= MIN_DUPLICATE_SCORE };
    }),
  );
  const groups = findComponents(
    listings.map(({ id }) => id),
    pairs.filter(({ isPair }) => isPair).map(({ ids }) => ids),
  );
  return pairs.map(({ ids: [a, b], isSame, isPair }) => ({
    isSame,
    isPair,
    isGrouped: groups.get(a) !== null && groups.get(a) === groups.get(b),
  }));
}

test('Labelled adverts in three languages are joined with few errors', () => {
  // The weights were chosen with the neighbourhoods at even indexes.
  for (const [half, minPairs] of [
    [0, 0.82],
    [1, 0.85],
  ] as const) {
    const pairs = NEIGHBOURHOODS.filter((_, index) => index % 2 === half).flatMap(({ listings }) =>
      countPairs(listings),
    );
    assert.ok(pairs.length > 500 && pairs.filter(({ isSame }) => isSame).length > 140);
    for (const [relation, minRecall] of [
      ['isPair', minPairs],
      ['isGrouped', 0.93],
    ] as const) {
      const found = pairs.filter((pair) => pair[relation]);
      const right = found.filter(({ isSame }) => isSame).length;
      const precision = right / found.length;
      const recall = right / pairs.filter(({ isSame }) => isSame).length;
      assert.ok(precision >= 0.98 && recall >= minRecall, `${relation}: ${precision}, ${recall}`);
    }
  }
});

const nullableFrom = <Value>(values: readonly Value[]) => fc.constantFrom(null, ...values);

const arbitraryListing = fc
  .record({
    deal_type: nullableFrom(['sale', 'rent', 'daily_rent']),
    city: nullableFrom(['Київ', 'Львів']),
    district: nullableFrom(['Галицький', 'Галицький район', 'Франківський']),
    language: nullableFrom(['uk', 'ru']),
    property_type: nullableFrom(['apartment', 'house']),
    address: nullableFrom([
      'вул. Франка, 5',
      'ул. Франко 5, кв. 7',
      'Івана Франка 5',
      'вул. 8 Березня, 7',
      'без адреси',
      '',
    ]),
    rooms: nullableFrom([1, 2]),
    area_total: nullableFrom([0, 40, 40.5, 41, 54.3]),
    floor: nullableFrom([2, 3]),
    floors_total: nullableFrom([5, 9]),
    latitude: nullableFrom([50.45, 50.46]),
    longitude: nullableFrom([30.52, 30.53]),
    price: nullableFrom([0, 100, 104, 120, 1000]),
    amount: nullableFrom([100, 4120, 4200]),
    currency: nullableFrom(['USD', 'UAH']),
    phones: fc.subarray(['+380 00 1', '80001', '+380 00 2']),
    text: fc.constantFrom('', 'one two three four five six seven eight nine ten eleven', 'a b'),
    images: fc.subarray([
      { sha256: 'a', fingerprint: 0n },
      { sha256: 'b', fingerprint: null },
      { sha256: 'c', fingerprint: -1n },
      { sha256: 'd', fingerprint: -2n },
    ]),
  })
  .map(createListing);

test('A comparison is symmetric and its parts add up to the score', () => {
  fc.assert(
    fc.property(arbitraryListing, arbitraryListing, (a, b) => {
      const comparison = compareListings(a, b);
      assert.deepEqual(compareListings(b, a), comparison);
      const isContradiction =
        a.deal_type !== null && b.deal_type !== null && a.deal_type !== b.deal_type;
      if (isContradiction) assert.equal(comparison, undefined);
      if (comparison === undefined) return;
      const sum = comparison.reasons.reduce((total, { part }) => total + part, 0);
      assert.ok(Math.abs(comparison.score - Math.min(1, Math.max(0, sum))) < 1e-9);
    }),
    { numRuns: 2000 },
  );
});

const IDS = Array.from({ length: 12 }, (_, index) => index + 1);
const arbitraryId = fc.constantFrom(...IDS);
const arbitraryPairs = fc.array(
  fc.tuple(arbitraryId, arbitraryId).filter(([a, b]) => a !== b),
  { maxLength: 20 },
);

test('A component never has both listings of a separate pair, and no pair is skipped without need', () => {
  fc.assert(
    fc.property(arbitraryPairs, arbitraryPairs, (pairs, separatePairs) => {
      const groups = findComponents(IDS, pairs, separatePairs);
      const shareGroup = (a: number, b: number) =>
        groups.get(a) != null && groups.get(a) === groups.get(b);
      assert.ok(separatePairs.every(([a, b]) => !shareGroup(a, b)));
      const skippedPairs = pairs.filter(([a, b]) => !shareGroup(a, b));
      const getMembers = (id: number) =>
        IDS.filter((other) => other === id || shareGroup(id, other));
      for (const [a, b] of skippedPairs) {
        const joinedIds = new Set([...getMembers(a), ...getMembers(b)]);
        assert.ok(separatePairs.some((pair) => pair.every((id) => joinedIds.has(id))));
      }
    }),
  );
});

/** Returns all IDs that pairs connect with an ID, by brute force. */
function findConnectedIds(startId: number, pairs: readonly DuplicatePair[]): Set<number> {
  const connectedIds = new Set([startId]);
  for (let size = 0; size !== connectedIds.size;) {
    size = connectedIds.size;
    for (const pair of pairs) {
      if (pair.some((id) => connectedIds.has(id))) pair.forEach((id) => connectedIds.add(id));
    }
  }
  return connectedIds;
}

test('A group is named by its smallest ID in any order of the pairs', () => {
  fc.assert(
    fc.property(arbitraryPairs, (pairs) => {
      const groups = findComponents(IDS, pairs);
      for (const id of IDS) {
        const connectedIds = findConnectedIds(id, pairs);
        assert.equal(groups.get(id), connectedIds.size === 1 ? null : Math.min(...connectedIds));
      }
      const swappedPairs = pairs.map(([a, b]): DuplicatePair => [b, a]).toReversed();
      assert.deepEqual(findComponents(IDS, swappedPairs), groups);
    }),
  );
});
