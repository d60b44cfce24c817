import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { compare, MIN_DUPLICATE_SCORE } from '../../src/duplicates/compare.ts';
import { findComponents, type DuplicatePair } from '../../src/duplicates/groups.ts';
import { comparedOf, GOLDEN } from './golden.ts';

test('The threshold separates the golden pairs with a margin', () => {
  for (const threshold of [-0.02, 0, 0.02].map((margin) => MIN_DUPLICATE_SCORE + margin)) {
    for (const { title, isSame, listings } of GOLDEN) {
      const { score } = compare(...listings) ?? { score: 0 };
      assert.equal(score >= threshold, isSame, `${title}: ${score}`);
    }
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
    images: fc.subarray([
      { sha256: 'a', fingerprint: 0n },
      { sha256: 'b', fingerprint: null },
      { sha256: 'c', fingerprint: -1n },
      { sha256: 'd', fingerprint: -2n },
    ]),
  })
  .map(comparedOf);

test('A comparison is symmetric and its parts add up to the score', () => {
  fc.assert(
    fc.property(anyListing, anyListing, (one, other) => {
      const comparison = compare(one, other);
      assert.deepEqual(compare(other, one), comparison);
      const isContradiction =
        one.deal_type !== null && other.deal_type !== null && one.deal_type !== other.deal_type;
      if (isContradiction) assert.equal(comparison, undefined);
      if (comparison === undefined) return;
      const sum = comparison.reasons.reduce((total, { part }) => total + part, 0);
      assert.ok(Math.abs(comparison.score - Math.min(1, Math.max(0, sum))) < 1e-9);
    }),
    { numRuns: 2000 },
  );
});

const IDS = Array.from({ length: 12 }, (_, nth) => nth + 1);
const id = fc.constantFrom(...IDS);
const edges = fc.array(
  fc.tuple(id, id).filter(([one, other]) => one !== other),
  { maxLength: 20 },
);

/** Returns the ids that pairs connect with one, by walking all pairs again and again. */
function reachable(from: number, all: readonly DuplicatePair[]): Set<number> {
  const reached = new Set([from]);
  for (let size = 0; size !== reached.size;) {
    size = reached.size;
    for (const edge of all) {
      if (edge.some((end) => reached.has(end))) edge.forEach((end) => reached.add(end));
    }
  }
  return reached;
}

test('A group is named by its smallest id in any order of the pairs', () => {
  fc.assert(
    fc.property(edges, (all) => {
      const groups = findComponents(IDS, all);
      for (const one of IDS) {
        const reached = reachable(one, all);
        assert.equal(groups.get(one), reached.size === 1 ? null : Math.min(...reached));
      }
      const swapped = all.map(([one, other]): DuplicatePair => [other, one]).toReversed();
      assert.deepEqual(findComponents(IDS, swapped), groups);
    }),
  );
});
