// 2 ** 40 ms is 35 years. Without a limit the doubling ends in infinity, and 0 × infinity is NaN.
const MOST_DOUBLINGS = 40;

/** The bounds of the waits between attempts, in milliseconds. */
export type BackoffBounds = {
  initialDelayMs: number;
  maxDelayMs: number;
};

/**
 * The wait before the next attempt: it doubles with each failure up to the bound, and half of it is
 * random, so that callers who failed together do not come back together.
 *
 * @param failures Failures so far, from 1.
 * @param random A number from 0 up to, but not including, 1.
 * @returns Milliseconds: between half of the doubled delay and all of it.
 */
export function backoffMs(failures: number, bounds: BackoffBounds, random: number): number {
  const doublings = Math.min(failures - 1, MOST_DOUBLINGS);
  const delay = Math.min(bounds.maxDelayMs, bounds.initialDelayMs * 2 ** doublings);
  return delay / 2 + (delay / 2) * random;
}
