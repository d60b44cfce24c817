import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { FEATURE_SLUGS } from '../../src/mock/features.ts';
import { readListing, type ReadListing } from '../../src/mock/read-listing.ts';

type GoldenEntry = {
  name: string;
  payload: Record<string, unknown>;
  /** What a person reads out of the text; fields that are not decided are left out. */
  expected: Partial<ReadListing>;
};

const golden: GoldenEntry[] = JSON.parse(
  readFileSync(new URL('listings.golden.json', import.meta.url), 'utf8'),
);

const KEYS = Object.keys(readListing({ description: 'Продам квартиру' })).toSorted();

describe('golden listings', () => {
  for (const { name, payload, expected } of golden) {
    test(name, () => {
      const read: Partial<Record<string, unknown>> = { ...readListing(payload) };
      const compared = Object.fromEntries(Object.keys(expected).map((key) => [key, read[key]]));
      assert.deepEqual(compared, expected);
    });
  }

  test('there are enough of them, with a name each, in every language', () => {
    assert.ok(golden.length >= 60);
    assert.equal(new Set(golden.map(({ name }) => name)).size, golden.length);
    const languages = new Set(golden.map(({ payload }) => readListing(payload).language));
    assert.deepEqual([...languages].toSorted(), ['en', 'mixed', 'ru', 'uk']);
    for (const language of ['uk', 'ru', 'en', 'mixed'] as const) {
      assert.ok(golden.some(({ expected }) => expected.language === language));
    }
  });
});

describe('the answer', () => {
  test('holds exactly the documented keys, for listings and for other texts', () => {
    const listing = readListing({ description: 'Здам 2к квартиру, Львів, 9000 грн' });
    const other = readListing({ description: 'Привіт!' });
    assert.deepEqual(Object.keys(other).toSorted(), Object.keys(listing).toSorted());
    assert.equal(other.is_listing, false);
    assert.match(other.reason ?? '', /^[A-Z].*\.$/u);
    assert.equal(listing.reason, null);
  });

  test('makes title and summary in the language of the text', () => {
    const facts = { price: 85_000, currency: 'USD', city: 'Львів', rooms: 2, area_total: 60 };
    const of = (description: string): string[] => {
      const { title, summary } = readListing({ ...facts, description });
      return [title ?? '', summary ?? ''];
    };
    assert.deepEqual(of('Продається квартира.'), [
      '2-кімн. квартира, Львів, 60 м²',
      'Продаж: 2-кімн. квартира, Львів, 60 м². Ціна: 85\u00A0000 USD.',
    ]);
    assert.deepEqual(of('Продаётся квартира, очень тёплый дом.'), [
      '2-комн. квартира, Львів, 60 м²',
      'Продажа: 2-комн. квартира, Львів, 60 м². Цена: 85\u00A0000 USD.',
    ]);
    assert.deepEqual(of('Apartment for sale'), [
      '2-room apartment, Львів, 60 m²',
      'For sale: 2-room apartment, Львів, 60 m². Price: 85\u00A0000 USD.',
    ]);
  });

  test('keeps a title the source gives, without its shouting', () => {
    const title = '🔥 ТЕРМІНОВО!!!  Продам   квартиру!!!';
    assert.equal(readListing({ title, description: 'Київ' }).title, 'Продам квартиру');
  });

  test('prefers plausible fields of the payload and ignores senseless ones', () => {
    const description = 'Продам 2-кімнатну квартиру, Одеса, 45 000 $';
    const given = { description, price: 44_000, currency: 'eur', city: 'Kiev', rooms: 3 };
    const read = readListing(given);
    assert.deepEqual(
      [read.price, read.currency, read.city, read.rooms],
      [44_000, 'EUR', 'Київ', 3],
    );
    const senseless = { description, price: -5, currency: 'dollars', city: 7, rooms: 2.5 };
    const again = readListing(senseless);
    assert.deepEqual(
      [again.price, again.currency, again.city, again.rooms],
      [45_000, 'USD', 'Одеса', 2],
    );
  });
});

/** JSON values as payloads may carry them, the keys the rules read among them. */
const anyPayload = fc.oneof(
  fc.jsonValue(),
  fc.dictionary(
    fc.constantFrom(...KEYS, 'description', 'phones', 'title', '__proto__', 'constructor'),
    fc.jsonValue(),
  ),
  fc.record({ title: fc.string({ unit: 'grapheme' }), description: fc.string({ unit: 'binary' }) }),
);

/** Pieces of listings, which when shuffled meet more rules than random characters do. */
const PIECES =
  'Продам|здам|квартиру|2к|5/9|60/40/9|85к$|12 000|грн|депозит|вул.|Франка|12а|пʼять|тисяч|на|поверсі|м²|,|.|\n|+380|for rent|$|1,200|per month|Київ|від|соток|Олена|000|123-45-67'.split(
    '|',
  );
const pieces = fc.array(fc.constantFrom(...PIECES), { maxLength: 60 });

function assertSound(read: ReadListing): void {
  assert.deepEqual(Object.keys(read).toSorted(), KEYS);
  assert.equal(read.is_listing, read.reason === null);
  for (const value of [read.price, read.area_total, read.area_living, read.area_kitchen]) {
    assert.ok(value === null || (Number.isFinite(value) && value > 0));
  }
  assert.ok(read.currency === null || /^[A-Z]{3}$/u.test(read.currency));
  assert.ok(read.rooms === null || Number.isInteger(read.rooms));
  assert.ok(read.phones.every((phone) => /^\+\d{8,15}$/u.test(phone)));
  assert.ok(read.features.every((slug) => FEATURE_SLUGS.includes(slug)));
  assert.deepEqual(read.features, read.features.toSorted());
}

describe('any input', () => {
  test('is answered without a throw, and the same way twice', () => {
    fc.assert(
      fc.property(anyPayload, (payload) => {
        assertSound(readListing(payload));
        assert.deepEqual(readListing(payload), readListing(payload));
      }),
      { numRuns: 300 },
    );
  });

  test('made of the words of listings is answered soundly', () => {
    fc.assert(
      fc.property(pieces, (words) => {
        assertSound(readListing({ description: words.join(' ') }));
      }),
      { numRuns: 300 },
    );
  });

  // With a rule that backtracks, one of these would take minutes and the suite would not end.
  const hostile = ['а', 'aа', ' ', '1', '1 ', '1 000 ', '5/', '+1-1-', 'сто ', 'сто-', 'без ', '('];
  const offers = [
    'продам!',
    'продам нову ',
    'дом продам\n',
    'поверх п',
    'с. А ',
    'is a ',
    'хто, ',
    '->',
  ];
  const hostileWords = ['вул. А ', 'Аа ', 'кімнат ', 'площа ', '1м2 ', 'у.', 'ж/м ', 'не з ', '$1'];
  for (const part of [
    ...hostile,
    ...hostileWords,
    ...offers,
    'шукаю а ',
    'looking for a ',
    'in a new ',
    '\n',
  ]) {
    test(`50,000 characters of ${JSON.stringify(part)} are read to the end`, () => {
      const text = `${part.repeat(Math.ceil(50_000 / part.length))}!`;
      assertSound(readListing({ title: text, description: text, city: text, phones: [text] }));
    });
  }
});
