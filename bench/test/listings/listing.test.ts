import assert from 'node:assert/strict';
import { test } from 'node:test';
import { normaliseText } from '@oselya/collector/internals';
import {
  createListing,
  SOURCES,
  createListingPayload,
  createTextPayloads,
} from '../../src/listings/listing.ts';
import { CITIES, VOCABULARY, getWord } from '../../src/listings/words.ts';

const COUNT = 5000;
const generator = { seed: 7 };
const listings = Array.from({ length: COUNT }, (_, nth) => createListing(generator, nth));

test('equal seeds make equal listings, in any order; other seeds make others', () => {
  assert.deepEqual(createListing(generator, COUNT - 1), listings.at(-1));
  assert.notDeepEqual(createListing({ seed: 8 }, 0), listings[0]);
  assert.equal(new Set(listings.map(({ description }) => description)).size, COUNT);
  assert.equal(new Set(listings.map(({ external_id }) => external_id)).size, COUNT);
});

test('cities, deals and sources have their shares', () => {
  const share = (isCounted: (listing: (typeof listings)[number]) => boolean) =>
    listings.filter(isCounted).length / COUNT;
  assert.equal(
    CITIES.reduce((sum, { percent }) => sum + percent, 0),
    100,
  );
  for (const { name, percent } of CITIES) {
    const found = share(({ city }) => city === name);
    assert.ok(Math.abs(found - percent / 100) < 0.02, `${name}: ${found}`);
  }
  assert.ok(Math.abs(share(({ deal_type }) => deal_type === 'sale') - 0.5) < 0.03);
  assert.equal(new Set(listings.map(({ source_slug }) => source_slug)).size, SOURCES);
});

test('words are broad, medium and rare', () => {
  const texts = listings.map(({ description }) => new Set(normaliseText(description).split(' ')));
  const share = (...ranks: number[]) => {
    const counts = ranks.map(
      (rank) => texts.filter((words) => words.has(getWord('uk', rank))).length,
    );
    return counts.reduce((sum, count) => sum + count, 0) / counts.length / COUNT;
  };
  const [broad, medium, rare] = [
    share(0, 1, 2),
    share(300, 500, 700),
    share(20_000, 30_000, 40_000),
  ];
  assert.ok(broad > 0.4, `broad: ${broad}`);
  assert.ok(medium > 0.002 && medium < 0.03, `medium: ${medium}`);
  assert.ok(rare < 0.002, `rare: ${rare}`);
  assert.equal(
    new Set(Array.from({ length: VOCABULARY }, (_, rank) => getWord('uk', rank))).size,
    VOCABULARY,
  );
});

test('copies have the requested number, and describe the home of an earlier listing', () => {
  const copying = { seed: 7, duplicates: 0.2 };
  const copies = Array.from({ length: COUNT }, (_, nth) => ({
    ...createListing(copying, nth),
    nth,
  })).filter(({ copy_of }) => copy_of !== null);
  assert.ok(Math.abs(copies.length / COUNT - 0.2) < 0.02);
  for (const { nth, copy_of, address, area_total, price, external_id } of copies) {
    assert.ok(copy_of !== null && copy_of < nth);
    const original = createListing({ seed: 7 }, copy_of);
    assert.deepEqual([address, area_total], [original.address, original.area_total]);
    assert.ok(Math.abs(price / original.price - 1) < 0.03);
    assert.equal(external_id, `flat-${nth}`);
  }
});

test('payloads tell what is known and nothing that is not', () => {
  const payload = createListingPayload(generator, 3);
  assert.ok(Object.values(payload).every((value) => value !== null));
  assert.equal(payload['city'], listings[3]?.city);
  assert.deepEqual(Object.keys(createTextPayloads(1, generator)[0] ?? {}), [
    'source_slug',
    'external_id',
    'description',
  ]);
});
