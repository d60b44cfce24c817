import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { median, percentiles, ratio, slope, summarize } from '../src/statistics.ts';

const values = fc.array(fc.double({ noNaN: true, min: -1e9, max: 1e9 }), { minLength: 1 });

test('the median is the middle value, or the mean of the middle two values', () => {
  assert.equal(median([7]), 7);
  assert.equal(median([9, 1, 5]), 5);
  assert.equal(median([4, 1, 3, 2]), 2.5);
  // Sorted as strings, these values would have a different order.
  assert.equal(median([10, 9, 100]), 10);
});

test('half of the values are on either side of the median', () => {
  fc.assert(
    fc.property(values, (allValues) => {
      const middle = median(allValues);
      const below = allValues.filter((value) => value < middle).length;
      const above = allValues.filter((value) => value > middle).length;
      assert.ok(below <= allValues.length / 2 && above <= allValues.length / 2);
    }),
  );
});

test('a summary has the median and the extremes, and does not reorder the values', () => {
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

test('a percentile is one of the values, and its share of the values does not exceed it', () => {
  fc.assert(
    fc.property(values, fc.double({ noNaN: true, min: 0, max: 1 }), (all, share) => {
      const [percentile = Number.NaN] = percentiles(all, [share]);
      assert.ok(all.includes(percentile));
      assert.ok(all.filter((value) => value <= percentile).length >= share * all.length);
    }),
  );
});

test('a ratio compares values within each round, so a slowdown of a whole round cancels out', () => {
  assert.deepEqual(ratio([200, 20, 100], [100, 10, 50]), { median: 2, min: 2, max: 2 });
  assert.deepEqual(ratio([2, 3, 8], [1, 2, 2]), { median: 2, min: 1.5, max: 4 });
});

test('missing values and unequal series are errors', () => {
  assert.throws(() => median([]), RangeError);
  assert.throws(() => summarize([]), RangeError);
  assert.throws(() => percentiles([], [0.5]), RangeError);
  assert.throws(() => ratio([1, 2], [1]), RangeError);
});

test('the slope is the median of the slopes between any two points', () => {
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
  assert.equal(slope(steady), 2, 'an outlier does not change the slope');
  assert.throws(() => slope([]), RangeError);
});

test('the slope of many points uses a sample from the first to the last point', () => {
  const many = Array.from({ length: 20_000 }, (_, x) => [x, 2 * x] as const);
  assert.equal(slope(many), 2);
  const late = many.map(([x]) => [x, x < 2000 ? 0 : x - 2000] as const);
  assert.equal(slope(late), 1, 'most pairs are among the last nine tenths');
});
