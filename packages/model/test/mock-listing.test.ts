import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { readAddress, normalizeCity, readPlace } from '../src/mock/places.ts';
import { readContactName, readPhones, maskPhones } from '../src/mock/contacts.ts';
import { FEATURE_SLUGS, readFeatures } from '../src/mock/features.ts';
import { type DealType } from '../src/mock/kinds.ts';
import { replaceNumberWords } from '../src/mock/numbers.ts';
import { readPrice } from '../src/mock/price.ts';
import {
  extractListing,
  type ListingExtraction,
  prepareText,
} from '../src/mock/extract-listing.ts';
import { readAreas, readFloors, readRooms, readYearBuilt } from '../src/mock/sizes.ts';
import { clean, fold } from '../src/mock/text.ts';

type Payload = Record<string, unknown> & {
  source_slug: string;
  external_id: string;
  description: string;
};

const read = (url: URL) => readFileSync(url, 'utf8');
const folded = (text: string): string => prepareText('', text).folded;

suite('golden listings', () => {
  /** The facts of a text; ambiguous fields are absent. */
  type Entry = { name: string; payload: object; expected: Partial<ListingExtraction> };
  const golden: Entry[] = JSON.parse(read(new URL('listings.golden.json', import.meta.url)));

  test('Golden listings are read as a person reads them', () => {
    const wrong = golden.flatMap(({ name, payload, expected }) => {
      const found: Partial<Record<string, unknown>> = { ...extractListing(payload) };
      return Object.entries(expected).flatMap(([key, value]) =>
        JSON.stringify(found[key]) === JSON.stringify(value)
          ? []
          : [`${name}: ${key} is ${JSON.stringify(found[key])}, not ${JSON.stringify(value)}`],
      );
    });
    assert.deepEqual(wrong, []);
  });

  test('Golden listings have unique names and cover every language', () => {
    assert.ok(golden.length >= 60);
    assert.equal(new Set(golden.map(({ name }) => name)).size, golden.length);
    const languages = new Set(golden.map(({ expected }) => expected.language));
    for (const language of ['uk', 'ru', 'en', 'mixed'] as const) assert.ok(languages.has(language));
  });
});

/** Tests that a rule reads the values from the texts. */
function table<T>(name: string, rule: (text: string) => T, cases: [text: string, value: T][]) {
  test(name, () => {
    for (const [text, value] of cases) assert.deepEqual(rule(text), value, text);
  });
}

const areas = (text: string, type: 'apartment' | 'land' = 'apartment') =>
  Object.values(readAreas(folded(text), type));
const priceFor = (deal: DealType) => (text: string) =>
  Object.values(readPrice(folded(text), deal, 'apartment'));
const foldOnce = (text: string) => fold(clean(text, 1_000));

suite('rules', () => {
  table('rooms', (text) => readRooms(folded(text)), [
    ['2-к кв', 2],
    ['3х комн', 3],
    ['3-х кімнатна', 3],
    ['двушка', 2],
    ['однушку', 1],
    ['трёшка', 3],
    ['2BR', 2],
    ['studio', 1],
    ['кухня-студія 20 м²', null],
    ['кімнат: 4', 4],
    ['1кк', 1],
    ['85к$', null],
    ['5 поверх', null],
  ]);

  table('the year of construction', (text) => readYearBuilt(folded(text)), [
    ['House, built in 1998, renovated in 2019', 1998],
    ['Year built: 2007', 2007],
    ['цегляний будинок 1985 р.п.', 1985],
    ['Рік побудови — 2015', 2015],
    ['квартира в доме 2010 года, 4 этаж', 2010],
    ['дом 1972 г. постройки', 1972],
    ['Будинок зведено у 2021 році', 2021],
    ['Договір 2025 року', null],
    ['Ціна 2000 $', null],
  ]);

  table('areas', (text) => areas(text), [
    ['60/40/9', [60, 40, 9]],
    ['61,7 / 32,1 / 14,2 кв.м', [61.7, 32.1, 14.2]],
    ['12/05/2024', [null, null, null]],
    ['60 кв. м, кухня 9 м', [60, null, 9]],
    ['загальна площа 60, житлова 40, кухня 9', [60, 40, 9]],
    ['кухня 9 м², загальна 60 м²', [60, null, 9]],
    ['600 sq ft', [55.7, null, null]],
    ['200 м до метро', [null, null, null]],
    ['950 $ за 1 м2', [null, null, null]],
  ]);
  table('areas of land', (text) => areas(text, 'land')[0] ?? null, [
    ['ділянка 6,5 соток', 650],
    ['0,12 га', 1_200],
    ['a plot of 2 acres', 8_093.72],
    ['ділянка 800 м2', 800],
    ['рівна ділянка', null],
  ]);

  table('floors', (text) => Object.values(readFloors(folded(text), 'apartment')), [
    ['5/9 эт.', [5, 9]],
    ['пов. 5 з 9', [5, 9]],
    ["на п'ятому поверсі", [5, null]],
    ['5th floor of 9', [5, 9]],
    ['5-й поверх 9-поверхового', [5, 9]],
    ['этаж 5, этажность 9', [5, 9]],
    ['останній поверх 9-поверхового', [9, 9]],
    ['ground floor', [1, null]],
    ['24/7', [null, null]],
    ['вул. Соборна 5/9', [null, null]],
    ['60/40/9', [null, null]],
    ['9/5 поверх', [5, null]],
  ]);
  table('floors of a house', (text) => readFloors(folded(text), 'house').total, [
    ['двоповерховий будинок', 2],
  ]);

  table('places', (text) => Object.values(readPlace(clean(text, 500), folded(text), null)), [
    ['у Львові', ['Львів', null]],
    ['в Киеве на Оболони', ['Київ', 'Оболонь']],
    ['Odessa, Arcadia', ['Одеса', 'Аркадія']],
    ['на Сихові', ['Львів', 'Сихів']],
    ['Печерський район', ['Київ', 'Печерський']],
    ['вул. Київська, Львів', ['Львів', null]],
    ['с. Гатне, 5 км від Києва', ['Гатне', null]],
    ['Черкаська область, м. Золотоноша', ['Золотоноша', null]],
    ['чи суми вистачить', [null, null]],
    ['у Сумах', ['Суми', null]],
    ['ровно 10 минут', [null, null]],
    ['Ділянка, с. Годовиця\nРівна ділянка', ['Годовиця', null]],
    ['Дом, м. Золотоноша\nДва поверхи', ['Золотоноша', null]],
  ]);
  table('the canonical name of a city', normalizeCity, [
    ...['Lviv', 'Львов', 'м. Львів', 'ЛЬВІВ', 'Львив'].map((name): [string, string] => [
      name,
      'Львів',
    ]),
    ['смт Славське', 'Славське'],
  ]);
  table('addresses', (text) => readAddress(clean(text, 500)), [
    ['вул. Івана Франка, 12а, другий поверх', 'вул. Івана Франка, 12а'],
    ['просп. Свободи 5/3', 'просп. Свободи 5/3'],
    ['ул. Пушкинская 37.', 'ул. Пушкинская 37'],
    ['ул. Бальзака, 8/16, 70/42/9', 'ул. Бальзака'],
    ['12 Halytska Street, 2nd floor', '12 Halytska Street'],
    ['затишна вулиця', null],
    ['біля парку', null],
  ]);
  table('names', (text) => readContactName(maskPhones(text)), [
    ['тел. 000 123 45 67 Ірина', 'Ірина'],
    ['Контактна особа: Олег Петренко', 'Олег Петренко'],
    ['Хозяйка Мария, звоните', 'Мария'],
    ['call Andrew: +380 00 555 66 77', 'Andrew'],
    ['Телефонуйте Ціна договірна', null],
    ['здам квартиру', null],
  ]);
  table('phones', readPhones, [
    ['+38 (000) 222-33-44', ['+380002223344']],
    ['000 123 45 67, 000-123-45-67', ['+380001234567']],
    ['80001234567', ['+380001234567']],
    ['+48 000 000 000', ['+48000000000']],
    ['85000 грн, 120 м2', []],
    ['ціна 12000 0001234567', ['+380001234567']],
  ]);
  table('features', (text) => readFeatures(folded(text)), [
    ['балкон, меблі, ліфт', ['balcony', 'elevator', 'furnished']],
    ['без балкона, ліфта немає', []],
    ['без ремонта', ['needs_renovation']],
    ['без комісії', ['no_commission']],
    ['можна з тваринами', ['pets_allowed']],
    ['с животными нельзя', ['no_pets']],
    ['pets welcome, no agency fee', ['no_commission', 'pets_allowed']],
    ['unfurnished, autonomous heating', ['autonomous_heating']],
  ]);

  table('prices of sales', priceFor('sale'), [
    ['85 000 у.е.', [85_000, 'USD']],
    ['85.000$', [85_000, 'USD']],
    ['85,000 USD', [85_000, 'USD']],
    ['85к$', [85_000, 'USD']],
    ['$85k', [85_000, 'USD']],
    ['85 т.у.е.', [85_000, 'USD']],
    ['1,2 млн грн', [1_200_000, 'UAH']],
    ['1 млн 250 тис. грн', [1_250_000, 'UAH']],
    ['було 90000, тепер 85000 $', [85_000, 'USD']],
    ['reduced from 90,000 to 85,000 USD', [85_000, 'USD']],
    ['950 $/м2', [null, null]],
    ['950 $ за м², 57 000 $', [57_000, 'USD']],
    ['ціна 9000', [9_000, null]],
    ['ціна 50000$ за квартиру', [50_000, 'USD']],
    ['ціна за сотку 3000$', [null, null]],
    ['будинок здається у вересні, 50000$', [50_000, 'USD']],
    ['здана орендарю за 9000 грн, 50000$', [50_000, 'USD']],
    ['будинок 2015 року, 60 м2, 5/9', [null, null]],
  ]);
  table('prices of rents', priceFor('rent'), [
    ['15тис', [15_000, 'UAH']],
    ['$ 1,200/mo', [1_200, 'USD']],
    ['депозит 9000 грн, оренда 8000 грн', [8_000, 'UAH']],
    ['8000 грн + залог 9000 грн + комісія 4000 грн', [8_000, 'UAH']],
    ['комунальні 3000 грн, ціна 8000 грн', [8_000, 'UAH']],
    ['8 000 грн (застава 8 000 грн)', [8_000, 'UAH']],
    ['500-600 $ в месяц', [500, 'USD']],
    ['12000 грн/міс або 900 грн/доба', [12_000, 'UAH']],
    ['оренда 9000 міс', [9_000, 'UAH']],
    ['000 123 45 67', [null, null]],
    ['комісія 50 %', [null, null]],
    ['2к, 3 поверх', [null, null]],
  ]);
  table('prices of nights', priceFor('daily_rent'), [
    ['€35 per night', [35, 'EUR']],
    ['€ 35.50 per night', [35.5, 'EUR']],
    ['12000 грн/міс або 900 грн/доба', [900, 'UAH']],
  ]);

  table('numbers in words', (text) => replaceNumberWords(fold(clean(text, 1_000))), [
    ["двадцять п'ять тисяч гривень", '25000 гривень'],
    ['сто двадцать тысяч долларов', '120000 долларов'],
    ['one hundred and twenty-five thousand dollars', '125000 dollars'],
    ['три миллиона двести тысяч', '3200000'],
    ['півтора мільйона', '1500000'],
    ['півмільйона', '500000'],
    ['25 тисяч', '25 тисяч'],
    ['п’ять дев’ять', '5 9'],
    ['двокімнатна, двухкомнатная, двух-комнатная', '2-кімнатна, 2-комнатная, 2-комнатная'],
    ['на пʼятому поверсі девʼятиповерхового', 'на 5-й поверсі 9-поверхового'],
    ['на двадцать первом этаже', 'на 21-й этаже'],
    ['the fifth floor of a nine-storey house', 'the 5-й floor of a 9-storey house'],
    ['третий из девяти', '3-й из 9'],
    ['перша лінія, второй вход', 'перша лінія, второй вход'],
    ['стоянка, трикотаж, семья, often', 'стоянка, трикотаж, семья, often'],
  ]);

  table('one spelling of each sign', foldOnce, [
    ['Здaм квapтиpу y Львoвi', 'здам квартиру y львові'],
    ['Аpаrtmеnt', 'apartment'],
    ['п’ять пʼять п`ять', 'пять пять пять'],
    ['2‑кімн – 3—к', '2-кімн - 3-к'],
    ['85\u00A0000\u2009грн', '85 000 грн'],
    ['за\u0301мок кварти\u00ADра', 'замок квартира'],
    ['ёлка', 'елка'],
  ]);

  test('Folded text is unchanged', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        assert.equal(foldOnce(foldOnce(text)), foldOnce(text));
      }),
      { examples: [['一İ'], ["Ⰰ'𝒊"], ["я'a"]] },
    );
    assert.ok(clean('\uFDFA'.repeat(100), 20).length <= 20);
  });
});

suite('the answer', () => {
  test('The answer has a title and a summary in the language of the text', () => {
    const facts = { price: 85_000, currency: 'USD', city: 'Львів', rooms: 2, area_total: 60 };
    const of = (description: string) => {
      const { title, summary } = extractListing({ ...facts, description });
      return `${title} | ${summary}`;
    };
    assert.equal(
      of('Продається квартира.'),
      '2-кімн. квартира, Львів, 60 м² | Продаж: 2-кімн. квартира, Львів, 60 м². Ціна: 85\u00A0000 USD.',
    );
    assert.equal(
      of('Продаётся квартира, очень тёплый дом.'),
      '2-комн. квартира, Львів, 60 м² | Продажа: 2-комн. квартира, Львів, 60 м². Цена: 85\u00A0000 USD.',
    );
    assert.equal(
      of('Apartment for sale'),
      '2-room apartment, Львів, 60 m² | For sale: 2-room apartment, Львів, 60 m². Price: 85\u00A0000 USD.',
    );
    const title = '🔥 ТЕРМІНОВО!!!  Продам   квартиру!!!';
    assert.equal(extractListing({ title, description: 'Київ' }).title, 'Продам квартиру');
  });

  test('The answer prefers plausible fields of the payload and ignores implausible ones', () => {
    const description = 'Продам 2-кімнатну квартиру, Одеса, 45 000 $';
    const facts = (given: object) => {
      const { price, currency, city, rooms } = extractListing({ description, ...given });
      return [price, currency, city, rooms];
    };
    const plausible = { price: 44_000, currency: 'eur', city: 'Kiev', rooms: 3 };
    assert.deepEqual(facts(plausible), [44_000, 'EUR', 'Київ', 3]);
    const senseless = { price: -5, currency: 'dollars', city: 7, rooms: 2.5 };
    assert.deepEqual(facts(senseless), [45_000, 'USD', 'Одеса', 2]);
  });
});

suite('any input', () => {
  const KEYS = Object.keys(extractListing({ description: 'Продам квартиру' })).toSorted();

  function assertSound(input: unknown): void {
    const found = extractListing(input);
    assert.deepEqual(Object.keys(found).toSorted(), KEYS);
    assert.equal(found.is_listing, found.reason === null);
    assert.match(found.reason ?? 'A.', /^[A-Z].*\.$/u);
    for (const value of [found.price, found.area_total, found.area_living, found.area_kitchen]) {
      assert.ok(value === null || (Number.isFinite(value) && value > 0));
    }
    assert.ok(found.currency === null || /^[A-Z]{3}$/u.test(found.currency));
    assert.ok(found.rooms === null || Number.isInteger(found.rooms));
    assert.ok(found.phones.every((phone) => /^\+\d{8,15}$/u.test(phone)));
    assert.ok(found.features.every((slug) => FEATURE_SLUGS.includes(slug)));
    assert.deepEqual(found.features, found.features.toSorted());
    assert.deepEqual(extractListing(input), found);
  }

  const anyPayload = fc.oneof(
    fc.jsonValue(),
    fc.dictionary(
      fc.constantFrom(...KEYS, 'description', 'phones', 'title', '__proto__', 'constructor'),
      fc.jsonValue(),
    ),
    fc.record({
      title: fc.string({ unit: 'grapheme' }),
      description: fc.string({ unit: 'binary' }),
    }),
  );
  /** Fragments of listings, which match more rules than random characters. */
  const PIECES =
    'Продам|здам|квартиру|2к|5/9|60/40/9|85к$|12 000|грн|депозит|вул.|Франка|12а|пʼять|тисяч|на|поверсі|м²|,|.|\n|+380|for rent|$|1,200|per month|Київ|від|соток|Олена|000|123-45-67'.split(
      '|',
    );
  const pieces = fc.array(fc.constantFrom(...PIECES), { maxLength: 60 });

  test('Any input has a valid and repeatable answer', () => {
    fc.assert(fc.property(anyPayload, assertSound), { numRuns: 300 });
    fc.assert(
      fc.property(pieces, (words) => assertSound({ description: words.join(' ') })),
      { numRuns: 300 },
    );
  });

  // A backtracking rule would take minutes.
  const HOSTILE =
    'а|aа| |1|1 |1 000 |5/|+1-1-|сто |сто-|без |(|вул. А |Аа |кімнат |площа |1м2 |у.|ж/м |не з |$1|продам!|продам нову |дом продам\n|поверх п|с. А |is a |хто, |->|шукаю а |looking for a |in a new |\n'.split(
      '|',
    );
  test('An input of 50,000 characters is read to the end', () => {
    for (const part of HOSTILE) {
      const text = `${part.repeat(Math.ceil(50_000 / part.length))}!`;
      assertSound({ title: text, description: text, city: text, phones: [text] });
    }
  });
});

suite('samples/listings.jsonl', () => {
  const SAMPLES = new URL('../../../samples/', import.meta.url);
  const IMAGES = 'http://127.0.0.1:8002/samples/';
  const payloads: Payload[] = read(new URL('listings.jsonl', SAMPLES))
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  const keyOf = ({ source_slug: source, external_id: id }: Payload) => `${source}/${id}`;
  const imagesOf = ({ image_urls: urls }: Payload) => (Array.isArray(urls) ? urls.map(String) : []);

  test('The samples have at least four sources, each within a minute of the ingest rate', () => {
    assert.ok(payloads.length >= 90);
    const counts = Map.groupBy(payloads, ({ source_slug: source }) => source);
    assert.ok(counts.size >= 4);
    for (const [source, lines] of counts) assert.ok(lines.length < 30, source);
  });

  test('The samples repeat some listings unchanged and some with another price', () => {
    const groups = [...Map.groupBy(payloads, keyOf).values()].filter(({ length }) => length > 1);
    const texts = groups.map((group) => new Set(group.map((line) => JSON.stringify(line))).size);
    assert.ok(texts.filter((count) => count === 1).length >= 3);
    const prices = groups.map((group) => new Set(group.map((line) => extractListing(line).price)));
    assert.ok(prices.filter(({ size }) => size > 1).length >= 3);
  });

  test('The samples have three texts that are no listings', () => {
    const rejected = payloads.filter((payload) => !extractListing(payload).is_listing).map(keyOf);
    const expected = ['kyiv-rent/50021', 'lviv-doshka/ld-1011', 'odesa-homes/A-310'];
    assert.deepEqual(rejected.toSorted(), expected);
  });

  test('Nine of ten samples yield price, city and deal type', () => {
    const listings = payloads.map(extractListing).filter((found) => found.is_listing);
    const complete = listings.filter((found) => found.price && found.city && found.deal_type);
    assert.ok(complete.length >= listings.length * 0.9, `${complete.length}/${listings.length}`);
  });

  test('The samples name small existing images, one of them twice', () => {
    const owners = new Map<string, Set<string>>();
    for (const payload of payloads) {
      for (const url of imagesOf(payload)) {
        assert.ok(url.startsWith(`${IMAGES}images/`), url);
        const file = new URL(url.slice(IMAGES.length), SAMPLES);
        assert.ok(existsSync(file) && statSync(file).size <= 60_000, url);
        owners.set(url, (owners.get(url) ?? new Set()).add(keyOf(payload)));
      }
    }
    assert.ok([...owners.values()].some(({ size }) => size > 1));
  });
});
