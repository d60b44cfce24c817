import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { en } from '../src/i18n/en/index.ts';
import { ru } from '../src/i18n/ru/index.ts';
import { uk } from '../src/i18n/uk/index.ts';
import { computeChange, parseWebAddress, splitHighlight } from '../src/listings/format.ts';
import { createRequest, readSearch, type Search, writeSearch } from '../src/search/address.ts';
import { listChips } from '../src/search/chips.ts';
import { changeRooms } from '../src/search/rooms.ts';

const text = fc
  .string({ minLength: 1, unit: 'grapheme' })
  .filter((value) => value.trim() === value && value !== '');

const search: fc.Arbitrary<Search> = fc.record(
  {
    q: text,
    mode: fc.constantFrom('words', 'meaning'),
    sort: fc.constantFrom('price_asc', 'area_desc'),
    deal_type: fc.array(text, { minLength: 1, maxLength: 2 }),
    city: fc.array(text, { minLength: 1, maxLength: 3 }),
    price_max: fc.nat(),
    has_images: fc.constant(true as const),
  },
  { requiredKeys: [], noNullPrototype: true },
);

test('A search survives its address', () => {
  fc.assert(
    fc.property(search, (written) => {
      assert.deepEqual(readSearch(new URLSearchParams(writeSearch(written).toString())), written);
    }),
  );
});

test('An address with wrong values is a search without them', () => {
  const params = new URLSearchParams('q=%20&sort=best&mode=x&price_max=cheap&has_images=yes&x=1');
  assert.deepEqual(readSearch(params), {});
});

test('Words ask for hits, and no words for an order', () => {
  const page = { limit: 50, cursor: 'c' };
  const { path, body } = createRequest({ sort: 'price_asc', city: ['Львів'] }, page);
  assert.equal(path, '/listings/browse');
  assert.deepEqual(body, { city: ['Львів'], fold_duplicates: true, sort: 'price_asc', ...page });
  const hybrid = createRequest({ q: 'квартира', sort: 'price_asc' }, { limit: 50 });
  assert.deepEqual(hybrid, {
    path: '/listings/search',
    body: { mode: 'hybrid', query: 'квартира', fold_duplicates: true, limit: 50, highlight: true },
  });
  assert.ok(!('highlight' in createRequest({ q: 'а', mode: 'meaning' }, { limit: 50 }).body));
});

test('Each filter is a chip in words that removes it alone', () => {
  const chips = listChips(
    {
      deal_type: ['rent'],
      city: ['Львів', 'Київ'],
      price_min: 8000,
      price_max: 15_000,
      rooms_min: 2,
      rooms_max: 2,
      area_min: 40,
      price_per_m2_max: 300,
      has_images: true,
      first_seen_since: '2026-11-20T00:00:00Z',
    },
    { language: 'en', texts: en.listings, currency: 'UAH' },
  );
  assert.deepEqual(
    chips.map((chip) => chip.text),
    [
      'Rent',
      'Львів',
      'Київ',
      '₴8,000 – ₴15,000',
      'up to ₴300/m²',
      'Rooms: 2',
      'from 40 m²',
      'Has images',
      'New since Nov 20, 2026',
    ],
  );
  assert.deepEqual(chips[1]?.removal, { city: ['Київ'] });
  assert.deepEqual(chips[3]?.removal, { price_min: undefined, price_max: undefined });
});

test('Numbers of rooms extend a range, and a second choice ends it', () => {
  const choose = (...choices: number[]) =>
    choices.reduce<Search>((limits, rooms) => changeRooms(limits, rooms), {});
  assert.deepEqual(choose(2), { rooms_min: 2, rooms_max: 2 });
  assert.deepEqual(choose(2, 3), { rooms_min: 2, rooms_max: 3 });
  assert.deepEqual(choose(1, 4), { rooms_min: 1, rooms_max: undefined });
  assert.deepEqual(choose(0, 1), { rooms_min: undefined, rooms_max: 1 });
  assert.deepEqual(choose(2, 3, 3), { rooms_min: 3, rooms_max: 3 });
  assert.deepEqual(choose(4, 4), { rooms_min: undefined, rooms_max: undefined });
});

test('A highlight is text with marked parts, whatever it contains', () => {
  assert.deepEqual(splitHighlight('a &#60;b&#62; <mark>c&#38;</mark> <script>'), [
    { text: 'a <b> ', isMarked: false },
    { text: 'c&', isMarked: true },
    { text: ' <script>', isMarked: false },
  ]);
  assert.equal(computeChange(69_000, 75_000), -8);
});

test('Only addresses of the web are linked', () => {
  assert.equal(parseWebAddress('https://example.test/a')?.host, 'example.test');
  for (const address of ['javascript:alert(1)', 'data:text/html,x', '//x', 'x', null])
    assert.equal(parseWebAddress(address), null);
});

test('All languages count correctly', () => {
  assert.deepEqual(
    [1, 2, 5, 21].map((value) => uk.listings.found(value, false)),
    ['1 оголошення', '2 оголошення', '5 оголошень', '21 оголошення'],
  );
  assert.deepEqual(
    [1, 3, 11].map((value) => ru.listings.rooms(value)),
    ['1 комната', '3 комнаты', '11 комнат'],
  );
  assert.equal(en.listings.found(1000, true), '1,000 listings or more');
});
