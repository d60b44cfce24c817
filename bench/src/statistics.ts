export type Summary = { median: number; min: number; max: number };

/**
 * Returns the median; for an even number of values, the mean of the middle two.
 * @throws RangeError without values.
 */
export function median(values: readonly number[]): number {
  const sortedValues = sortNumbers(values);
  const middle = sortedValues.length / 2;
  const upper = getValue(sortedValues, Math.floor(middle));
  return Number.isInteger(middle) ? (getValue(sortedValues, middle - 1) + upper) / 2 : upper;
}

/**
 * Returns the median with the minimum and maximum, which show its reliability.
 * @throws RangeError without values.
 */
export function summarize(values: readonly number[]): Summary {
  const sortedValues = sortNumbers(values);
  return {
    median: median(sortedValues),
    min: getValue(sortedValues, 0),
    max: getValue(sortedValues, sortedValues.length - 1),
  };
}

/**
 * Returns percentiles by the nearest-rank method, so that each of them is a measured value.
 * @param shares From 0 (the smallest value) to 1 (the largest).
 * @throws RangeError without values.
 */
export function percentiles(values: readonly number[], shares: readonly number[]): number[] {
  const sortedValues = sortNumbers(values);
  return shares.map((share) =>
    getValue(sortedValues, Math.max(0, Math.ceil(share * sortedValues.length) - 1)),
  );
}

/**
 * Returns the median, minimum and maximum of the ratios of two series in each round. A load that slows the machine in
 * one round affects both series, so it cancels out.
 * @param values One value for each round.
 * @throws RangeError if the series have different lengths or no values.
 */
export function ratio(values: readonly number[], peerValues: readonly number[]): Summary {
  if (values.length !== peerValues.length)
    throw new RangeError('The series have different lengths');
  return summarize(values.map((value, round) => value / getValue(peerValues, round)));
}

/** Maximum number of points. 500 points have 124,750 slopes, one per pair. */
const MAX_POINTS = 500;

/**
 * Returns the Theil–Sen slope of y over x: the median slope between any two points, which is robust to outliers.
 * Returns 0 if all points have the same x.
 * @param points Points ordered by x. More than 500 are thinned out evenly; the first and last remain.
 * @throws RangeError without points.
 */
export function slope(points: readonly (readonly [x: number, y: number])[]): number {
  if (points.length === 0) throw new RangeError('There are no points');
  const sample = thin(points, MAX_POINTS);
  const slopes = sample.flatMap(([x, y], index) =>
    sample
      .slice(index + 1)
      .filter(([later]) => later !== x)
      .map(([later, value]) => (value - y) / (later - x)),
  );
  return slopes.length === 0 ? 0 : median(slopes);
}

function thin<Value>(values: readonly Value[], maxCount: number): readonly Value[] {
  if (values.length <= maxCount) return values;
  const step = (values.length - 1) / (maxCount - 1);
  return Array.from({ length: maxCount }, (_, index) => getValue(values, Math.round(index * step)));
}

function sortNumbers(values: readonly number[]): number[] {
  if (values.length === 0) throw new RangeError('There are no values');
  return values.toSorted((one, other) => one - other);
}

function getValue<Value>(values: readonly Value[], index: number): Value {
  const value = values[index];
  if (value === undefined) throw new RangeError(`No value has the index ${index}`);
  return value;
}
