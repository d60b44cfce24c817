/** A figure over several rounds. */
export type Summary = { median: number; min: number; max: number };

/**
 * The median: half of the values are at most this; of an even number the mean of the middle two.
 * @throws RangeError without values.
 */
export function median(values: readonly number[]): number {
  const sorted = inOrder(values);
  const middle = sorted.length / 2;
  const upper = at(sorted, Math.floor(middle));
  return Number.isInteger(middle) ? (at(sorted, middle - 1) + upper) / 2 : upper;
}

/** The median, with the extremes as a measure of its reliability. */
export function summarize(values: readonly number[]): Summary {
  const sorted = inOrder(values);
  return { median: median(sorted), min: at(sorted, 0), max: at(sorted, sorted.length - 1) };
}

/**
 * Percentiles by the nearest-rank method: the smallest value that is at least as large as the given
 * share of all values, so each is one that was measured.
 * @param shares From 0 (the smallest) to 1 (the largest).
 * @throws RangeError without values.
 */
export function percentiles(values: readonly number[], shares: readonly number[]): number[] {
  const sorted = inOrder(values);
  return shares.map((share) => at(sorted, Math.max(0, Math.ceil(share * sorted.length) - 1)));
}

/**
 * How many times larger one series is than another: the median over the rounds of the ratio within a
 * round. Both series of a round were measured close to one another, so what slowed the machine down in
 * that round cancels out, which it would not in the ratio of two medians.
 * @param values One for each round, as many as `others`.
 */
export function ratio(values: readonly number[], others: readonly number[]): Summary {
  if (values.length !== others.length) throw new RangeError('The series have different lengths');
  return summarize(values.map((value, round) => value / at(others, round)));
}

/** There are as many slopes as pairs of points: 124,750. */
const MAX_POINTS = 500;

/**
 * By how much y grows with x: the median of the slopes between any two points (Theil and Sen), which a few
 * points far off do not move. 0 where all have the same x.
 * @param points In the order of x. Of more than 500 as many count, at even distances, both ends among them.
 * @throws RangeError without points.
 */
export function slope(points: readonly (readonly [x: number, y: number])[]): number {
  if (points.length === 0) throw new RangeError('There are no points');
  const some = thin(points, MAX_POINTS);
  const slopes = some.flatMap(([x, y], nth) =>
    some
      .slice(nth + 1)
      .filter(([later]) => later !== x)
      .map(([later, value]) => (value - y) / (later - x)),
  );
  return slopes.length === 0 ? 0 : median(slopes);
}

function thin<Value>(values: readonly Value[], most: number): readonly Value[] {
  if (values.length <= most) return values;
  const step = (values.length - 1) / (most - 1);
  return Array.from({ length: most }, (_, nth) => at(values, Math.round(nth * step)));
}

function inOrder(values: readonly number[]): number[] {
  if (values.length === 0) throw new RangeError('There are no values');
  return values.toSorted((one, other) => one - other);
}

function at<Value>(values: readonly Value[], index: number): Value {
  const value = values[index];
  if (value === undefined) throw new RangeError(`There is no value ${index}`);
  return value;
}
