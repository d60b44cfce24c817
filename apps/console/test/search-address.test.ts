import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createRequest, readSearch, type Search, writeSearch } from '../src/search/address.ts';

const text = fc.string({ minLength: 1, unit: 'grapheme' }).filter((value) => value.trim() === value && value !== '');

const search: fc.Arbitrary<Search> = fc.record(
  {
    q: text,
    sort: fc.constantFrom('price_asc', 'area_desc'),
    deal_type: text,
    city: fc.array(text, { minLength: 1, maxLength: 3 }),
    place_ids: fc.array(fc.nat(), { minLength: 1, maxLength: 3 }),
    price_max: fc.nat(),
    has_images: fc.constant(true as const),
  },
  { requiredKeys: [] },
);

test('A search survives its address', () => {
  fc.assert(
    fc.property(search, (written) => {
      assert.deepEqual(readSearch(new URLSearchParams(writeSearch(written).toString())), written);
    }),
  );
});

test('An address with wrong values is a search without them', () => {
  const params = new URLSearchParams('q=%20&sort=best&price_max=cheap&place_ids=1&place_ids=x&has_images=yes&x=1');
  assert.deepEqual(readSearch(params), { place_ids: [1] });
});

test('A search with words asks for meaning, and one without words for an order', () => {
  assert.equal(createRequest({ q: 'квартира' }).path, '/listings/search/hybrid');
  const { path, body } = createRequest({ sort: 'price_asc', city: ['Львів'] });
  assert.equal(path, '/listings/search/browse');
  assert.deepEqual(body, { city: ['Львів'], fold_duplicates: true, sort: 'price_asc' });
});
