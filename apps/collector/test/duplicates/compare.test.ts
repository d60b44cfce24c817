import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { compare, THRESHOLD } from '../../src/duplicates/compare.ts';
import type { Compared } from '../../src/duplicates/candidates.ts';
import { comparedOf, GOLDEN } from './golden.ts';

const JUDGED = GOLDEN.map(([what, label, one, other]) => {
  const comparison = compare(comparedOf(one), comparedOf(other));
  return { what, label, comparison, score: comparison?.score ?? 0 };
});

/** How many of those that are taken for the same are, and how many of those that are, are taken so. */
function quality(threshold: number): { precision: number; recall: number } {
  const taken = JUDGED.filter(({ score }) => score >= threshold);
  const right = taken.filter(({ label }) => label === 'same').length;
  const same = JUDGED.filter(({ label }) => label === 'same').length;
  return { precision: taken.length === 0 ? 1 : right / taken.length, recall: right / same };
}

test('the threshold parts the golden pairs', (t) => {
  for (const threshold of [0.4, 0.5, THRESHOLD, 0.65, 0.7, 0.8]) {
    const { precision, recall } = quality(threshold);
    t.diagnostic(
      `from ${threshold}: precision ${precision.toFixed(3)}, recall ${recall.toFixed(3)}`,
    );
  }
  const wrong = JUDGED.filter(({ label, score }) => (label === 'same') !== score >= THRESHOLD);
  assert.deepEqual(wrong, []);
  // A little more and a little less would do too: it is not fitted to one pair.
  for (const near of [THRESHOLD - 0.02, THRESHOLD + 0.02]) {
    assert.deepEqual(quality(near), { precision: 1, recall: 1 }, `at ${near}`);
  }
});

const maybe = <Value>(values: readonly Value[]) => fc.constantFrom(null, ...values);

const anyListing = fc
  .record({
    deal_type: maybe(['sale', 'rent', 'daily_rent']),
    city: maybe(['Київ', 'Львів']),
    district: maybe(['Галицький', 'Галицький район', 'Франківський']),
    address: maybe(['вул. Франка, 5', 'Івана Франка 5', 'вул. 8 Березня, 7', 'без адреси', '']),
    rooms: maybe([1, 2]),
    area_total: maybe([0, 40, 40.5, 41, 54.3]),
    floor: maybe([2, 3]),
    floors_total: maybe([5, 9]),
    latitude: maybe([50.45, 50.46]),
    longitude: maybe([30.52, 30.53]),
    price: maybe([0, 100, 104, 120, 1000]),
    currency: maybe(['USD', 'UAH']),
    phones: fc.subarray(['+380 00 1', '80001', '+380 00 2']),
    text: fc.constantFrom('', 'one two three four five six seven eight nine ten eleven', 'a b'),
    pictures: fc.subarray([
      { sha256: 'a', fingerprint: 0n },
      { sha256: 'b', fingerprint: null },
      { sha256: 'c', fingerprint: -1n },
      { sha256: 'd', fingerprint: -2n },
    ]),
  })
  .map(comparedOf);

test('both sides give the same, and the parts add up to the score', () => {
  fc.assert(
    fc.property(anyListing, anyListing, (one, other) => {
      const comparison = compare(one, other);
      assert.deepEqual(compare(other, one), comparison);
      if (comparison === undefined) return;
      const sum = comparison.reasons.reduce((total, { part }) => total + part, 0);
      assert.ok(Math.abs(comparison.score - Math.min(1, Math.max(0, sum))) < 1e-9);
    }),
    { numRuns: 2000 },
  );
});

test('offers of different kinds are never the same', () => {
  fc.assert(
    fc.property(anyListing, (one) => {
      if (one.deal_type === null) return;
      const other: Compared = { ...one, deal_type: one.deal_type === 'sale' ? 'rent' : 'sale' };
      assert.equal(compare(one, other), undefined);
    }),
  );
});
