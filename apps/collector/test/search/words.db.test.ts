import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { createStemMatcher, highlight } from '../../src/search/highlight.ts';
import { createStems } from '../../src/search/listing-stems.ts';
import { analyzeQuery } from '../../src/search/query-analysis.ts';
import { expandUnknownWords, refreshVocabulary } from '../../src/search/vocabulary.ts';
import { openSearch } from './harness.ts';

const { add, db } = await openSearch();

/** Returns the listings whose stems match all words and phrases of a query. */
async function findMatches(query: string, listings: Record<string, string>): Promise<string[]> {
  const groups = await expandUnknownWords(db, analyzeQuery(query).groups);
  const tsquery = groups.map((group) => `(${group.tsquery})`).join(' & ');
  const { rows } = await sql<{ name: string }>`
    select name from unnest(${Object.keys(listings)}::text[], ${Object.values(listings)}::tsvector[]) as listing (name, stems)
    where stems @@ ${tsquery}::tsquery`.execute(db);
  return rows.map(({ name }) => name);
}

test('Stems have terms for the facts of fields and texts, title before facts before text', () => {
  const stems = createStems({
    title: 'Двушка у Львові',
    description: 'Площа 45/30/9 м², 3/9, ціна 12 000 грн. Тел. 067 123-45-67',
    deal_type: 'rent',
    property_type: 'apartment',
    place_path: [702550],
    floor: 9,
    floors_total: 9,
    area_total: 54.5,
    price: 12_000,
    phones: ['+380501112233'],
  });
  const weights = new Map(
    stems.split(' ').map((entry) => {
      const [term = '', positions = ''] = entry.split(':');
      return [term.slice(1, -1), positions.replaceAll(/[\d,]/g, '')];
    }),
  );
  const expected = {
    A: '@rooms2 dvushk ^@rooms2 ^dvushk',
    B: '@rent @apartment @place702550 @floor9 @floors9 @last_floor @area54 @area55 @phone501112233 @phone1112233',
    D: 'plosch @area45 @floor3 @phone671234567 @phone1234567',
  };
  for (const [weight, terms] of Object.entries(expected)) {
    for (const term of terms.split(' '))
      assert.match(weights.get(term) ?? '', RegExp(`^${weight}`), term);
  }
  assert.equal(weights.get('12000'), 'BD');
});

test('Stems of the longest texts stay below the limits of PostgreSQL', async () => {
  const fill = (create: (index: number) => string) =>
    Array.from({ length: 50_000 }, (_, index) => create(index))
      .join('')
      .slice(0, 50_000);
  const letters = 'щжюяєхчцшї';
  const texts = [
    fill((index) => `${letters[index % 10]}${letters[(index * 7) % 10]}${letters[index % 7]} `),
    fill((index) => `${String.fromCodePoint(0x4e00 + index)} `),
    fill(() => 'щ'),
    fill(() => '\u{1E9E}'),
    fill((index) => `${index} `),
    fill(() => '1 '),
    fill(() => '5/9 2к '),
    fill(() => `'"\\:* @rooms2`),
  ];
  for (const description of texts) {
    const stems = createStems({ description });
    const { rows } = await sql<{ terms: number }>`
      select length(${stems}::tsvector) as terms`.execute(db);
    assert.ok((rows[0]?.terms ?? 0) > 0, description.slice(0, 20));
  }
});

test('A query finds a listing by other forms, languages, letters, numbers and with typos', async () => {
  const texts = {
    flat: 'Здається двокімнатна квартира на Сихові, Львів, 54,5 м², 5 поверх з 9. 12 000 грн. Тел. 067 123-45-67',
    house: 'Продам дом в Одессе у моря, 6 соток, гараж. Без комиссии',
    office: 'Office space near a metro station in Kyiv',
    room: 'Кімната без тварин і без газу, великий парк, на території є охорона',
  };
  await add(...Object.values(texts).map((description) => ({ description })));
  const facts: Record<string, Parameters<typeof createStems>[0]> = {
    flat: { deal_type: 'rent', property_type: 'apartment', place_path: [702550], price: 12_000 },
    house: { deal_type: 'sale', property_type: 'house', place_path: [698740] },
    office: { property_type: 'commercial' },
    room: { property_type: 'room' },
  };
  const listings = Object.fromEntries(
    Object.entries(texts).map(([name, description]) => [
      name,
      createStems({ description, ...facts[name] }),
    ]),
  );
  assert.ok((await refreshVocabulary(db, new AbortController().signal)) ?? 0);
  assert.equal(await refreshVocabulary(db, new AbortController().signal), undefined);
  const expected = {
    flat: [
      'квартиры Львов',
      'kvartyra lviv',
      'flat to rent',
      'двушка',
      '2-к квартира',
      '2br',
      'зняти квартиру',
      '54 м2',
      '5 поверх',
      '5/9',
      '+38 (067) 123-45-67',
      '123-45-67',
      'квратира',
      'двокімнатна сих',
      'кварт сихі',
      'двокімантна',
      'не останній поверх двушка',
      'крім першого поверху та останнього двушка',
      'двушка, 10 хвилин пішки',
      'квартира за 12 тис на місяць',
      '2к у Львові',
    ],
    house: [
      'будинок біля моря',
      'купити хату одеса',
      'house by the sea',
      'гаражі',
      '6 соток',
      'дом від власника',
      'house without broker',
      'шість соток',
    ],
    office: ['офіс метро', 'ofis', 'оффис'],
    room: ['територія з охороною', 'large park', 'no pets'],
  };
  for (const [name, queries] of Object.entries(expected)) {
    for (const query of queries)
      assert.deepEqual(await findMatches(query, listings), [name], query);
  }
  for (const query of ['pet friendly', 'газ'])
    assert.deepEqual(await findMatches(query, listings), [], query);
});

test('Highlights mark the words that share a stem or a fact with the query', async () => {
  const groups = await expandUnknownWords(db, analyzeQuery('2к квартиры Львів метро').groups);
  const text = 'Двокімнатна квартира у Львові, flat <b> біля гаража';
  assert.equal(
    highlight(text, createStemMatcher(groups)),
    '<mark>Двокімнатна</mark> <mark>квартира</mark> у <mark>Львові</mark>, <mark>flat</mark> &#60;b&#62; біля гаража',
  );
});

test('A query states limits of price, area, rooms, floor and distance', () => {
  const expected = {
    'квартира до 15 000 грн': { price_max: 15_000, currency: 'UAH' },
    'up to $500': { price_max: 500, currency: 'USD' },
    'від 500 до 700 $': { price_min: 500, price_max: 700, currency: 'USD' },
    'продаж до 40 тис': { price_max: 40_000, currency: 'USD' },
    '50-55 м2': { area_min: 50, area_max: 55 },
    'от 3 соток': { area_min: 300 },
    'оренда 8000': { price_min: 6800, price_max: 9200 },
    'новобудова 2023': {},
    '2к': {},
    '8-10 тис грн': { price_min: 8000, price_max: 10_000, currency: 'UAH' },
    'до 1000$ за м2': { price_per_m2_max: 1000, currency: 'USD' },
    'at least 3 bedrooms': { rooms_min: 3 },
    'не вище 4 поверху': { floor_max: 4 },
    '60+ м2': { area_min: 60 },
    '$500-700': { price_min: 500, price_max: 700, currency: 'USD' },
    '12 000 – 15 000 грн': { price_min: 12_000, price_max: 15_000, currency: 'UAH' },
    'between 300 and 500 eur': { price_min: 300, price_max: 500, currency: 'EUR' },
    'дешевше ніж 8к грн': { price_max: 8000, currency: 'UAH' },
    "до двадцяти п'яти тисяч доларів": { price_max: 25_000, currency: 'USD' },
    'зняти до 700': { price_max: 700, currency: 'USD' },
    'квартира до 45000': { price_max: 45_000, currency: 'USD' },
    'площа від 50 до 60': { area_min: 50, area_max: 60 },
    'поверх не вище 4': { floor_max: 4 },
    'до півтора гектара': { area_max: 15_000 },
    '1,5-2 га': { area_min: 15_000, area_max: 20_000 },
    'до моря 300 м': {},
    'flat 60 m': {},
    'дача под Львовом': { near: { latitude: 49.838, longitude: 24.023, radius_m: 40_000 } },
    'у передмісті Львова': { near: { latitude: 49.838, longitude: 24.023, radius_m: 40_000 } },
  };
  for (const [query, limits] of Object.entries(expected))
    assert.deepEqual(analyzeQuery(query).limits, limits, query);
});
