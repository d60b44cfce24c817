import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChangesPage } from '../../src/collector/client.ts';
import { asItIsNow, toCandidates, toHit } from '../../src/digests/changes.ts';
import { listing } from '../helpers/scripted-collector.ts';

type Change = ChangesPage['items'][number];

const change = (listing_id: number, facts: Partial<Change> = {}): Change => ({
  listing_id,
  source_slug: 'samples',
  kind: 'new',
  price_from: null,
  price_to: null,
  currency_from: null,
  currency_to: null,
  changed_at: '2026-03-02T09:15:00.000Z',
  ...facts,
});

const priced = (
  listing_id: number,
  [price_from, price_to]: [number | null, number | null],
  [currency_from, currency_to]: [string | null, string | null] = ['UAH', 'UAH'],
) =>
  change(listing_id, { kind: 'price_changed', price_from, price_to, currency_from, currency_to });

const cheaper = (oldPrice: number) => ({ kind: 'cheaper' as const, oldPrice, currency: 'UAH' });

test('what is new, back or cheaper is worth asking about', () => {
  const changes = [change(1), change(2, { kind: 'returned' }), priced(3, [200, 150])];
  assert.deepEqual(
    [...toCandidates(changes)],
    [
      [1, { kind: 'new' }],
      [2, { kind: 'new' }],
      [3, cheaper(200)],
    ],
  );
});

test('a price that rises, comes, goes, or is of another currency, is not cheaper', () => {
  const changes = [
    priced(1, [100, 120]),
    priced(2, [100, 100]),
    priced(3, [null, 100]),
    priced(4, [100, null]),
    priced(5, [40_000, 1000], ['UAH', 'USD']),
    priced(6, [100, 90], [null, 'UAH']),
  ];
  assert.equal(toCandidates(changes).size, 0);
});

test('of several changes of a listing the first price counts, and that it is new counts more', () => {
  assert.deepEqual(
    [...toCandidates([priced(1, [300, 250]), priced(1, [250, 200]), priced(1, [200, 220])])],
    [[1, cheaper(300)]],
  );
  assert.deepEqual([...toCandidates([priced(1, [300, 250]), change(1)])], [[1, { kind: 'new' }]]);
  assert.deepEqual([...toCandidates([change(1), priced(1, [300, 250])])], [[1, { kind: 'new' }]]);
});

test('a listing is told as it is by the time it is found', () => {
  const found = listing(7, { price: 150, title: 'Біля парку', url: 'https://a.test/7' });
  assert.deepEqual(toHit(found, { kind: 'new' }), {
    listingId: 7,
    kind: 'new',
    oldPrice: null,
    listing: {
      title: 'Біля парку',
      price: 150,
      currency: 'UAH',
      city: 'Львів',
      district: null,
      rooms: 2,
      area_total: 52,
      url: 'https://a.test/7',
    },
  });
  assert.equal(toHit(found, cheaper(200))?.oldPrice, 200);
});

test('what was cheaper and is not any more is not told', () => {
  assert.equal(toHit(listing(7, { price: 200 }), cheaper(200)), undefined);
  assert.equal(toHit(listing(7, { price: null }), cheaper(200)), undefined);
  assert.equal(toHit(listing(7, { price: 100, currency: 'USD' }), cheaper(200)), undefined);
});

/** A find that waits, of a listing that cost 100. */
function hit(kind: 'new' | 'cheaper', oldPrice: number | null) {
  const found = toHit(listing(7, { price: 100 }), { kind: 'new' });
  assert.ok(found !== undefined);
  return { ...found, kind, oldPrice };
}

test('a find that waited is as the listing is by now, with the price before where that says something', () => {
  const now = (waited: ReturnType<typeof hit>, facts: Parameters<typeof listing>[1]) => {
    const found = asItIsNow(waited, listing(7, facts));
    return found && [found.kind, found.listing.price, found.oldPrice];
  };
  assert.deepEqual(now(hit('new', null), { price: 120 }), ['new', 120, null]);
  assert.deepEqual(now(hit('new', 150), { price: 120 }), ['new', 120, 150]);
  assert.deepEqual(now(hit('new', 150), { price: 3, currency: 'USD' }), ['new', 3, null]);
  assert.deepEqual(now(hit('cheaper', 150), { price: 120 }), ['cheaper', 120, 150]);
  for (const facts of [{ price: 150 }, { price: null }, { price: 3, currency: 'USD' }]) {
    assert.equal(now(hit('cheaper', 150), facts), undefined);
  }
});
