import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { median, percentiles, ratio, slope, summarize } from '../src/statistics.ts';

const values = fc.array(fc.double({ noNaN: true, min: -1e9, max: 1e9 }), { minLength: 1 });

test('the median is the middle, or the mean of the middle two', () => {
  assert.equal(median([7]), 7);
  assert.equal(median([9, 1, 5]), 5);
  assert.equal(median([4, 1, 3, 2]), 2.5);
  // As texts they would have another order.
  assert.equal(median([10, 9, 100]), 10);
});

test('half of the values are on either side of the median', () => {
  fc.assert(
    fc.property(values, (all) => {
      const middle = median(all);
      const below = all.filter((value) => value < middle).length;
      const above = all.filter((value) => value > middle).length;
      assert.ok(below <= all.length / 2 && above <= all.length / 2);
    }),
  );
});

test('a summary has the extremes beside the median and leaves the values as they were', () => {
  const rounds = [3, 1, 2];
  assert.deepEqual(summarize(rounds), { median: 2, min: 1, max: 3 });
  assert.deepEqual(rounds, [3, 1, 2]);
});

test('a percentile is the value at its rank', () => {
  const hundred = Array.from({ length: 100 }, (_, index) => 100 - index);
  assert.deepEqual(percentiles(hundred, [0, 0.5, 0.99, 1]), [1, 50, 99, 100]);
  assert.deepEqual(percentiles([5], [0, 0.5, 1]), [5, 5, 5]);
  assert.deepEqual(percentiles([1, 2, 3], [0.5, 0.9]), [2, 3]);
});

test('a percentile was measured, and its share of the values is not above it', () => {
  fc.assert(
    fc.property(values, fc.double({ noNaN: true, min: 0, max: 1 }), (all, share) => {
      const [found = Number.NaN] = percentiles(all, [share]);
      assert.ok(all.includes(found));
      assert.ok(all.filter((value) => value <= found).length >= share * all.length);
    }),
  );
});

test('a ratio is taken within each round, so what slows a whole round down cancels out', () => {
  assert.deepEqual(ratio([200, 20, 100], [100, 10, 50]), { median: 2, min: 2, max: 2 });
  assert.deepEqual(ratio([2, 3, 8], [1, 2, 2]), { median: 2, min: 1.5, max: 4 });
});

test('what cannot be computed is an error, not a number', () => {
  assert.throws(() => median([]), RangeError);
  assert.throws(() => summarize([]), RangeError);
  assert.throws(() => percentiles([], [0.5]), RangeError);
  assert.throws(() => ratio([1, 2], [1]), RangeError);
});

test('the slope is the median of those between any two points', () => {
  assert.equal(
    slope([
      [0, 1],
      [1, 3],
      [2, 5],
    ]),
    2,
  );
  assert.equal(
    slope([
      [0, 0],
      [1, 3],
      [2, 0],
    ]),
    0,
  );
  assert.equal(
    slope([
      [0, 4],
      [2, 0],
      [4, -4],
    ]),
    -2,
  );
  assert.equal(
    slope([
      [7, 1],
      [7, 9],
    ]),
    0,
  );
  assert.equal(slope([[7, 1]]), 0);
  const steady = Array.from({ length: 20 }, (_, x) => [x, x === 18 ? 1000 : 2 * x] as const);
  assert.equal(slope(steady), 2, 'one far off says nothing');
  assert.throws(() => slope([]), RangeError);
});

test('the slope of many points is that of some of them, from the first to the last', () => {
  const many = Array.from({ length: 20_000 }, (_, x) => [x, 2 * x] as const);
  assert.equal(slope(many), 2);
  const late = many.map(([x]) => [x, x < 2000 ? 0 : x - 2000] as const);
  assert.equal(slope(late), 1, 'most of the pairs are in the later nine tenths');
});
