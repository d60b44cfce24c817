import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ImageError } from '../../src/images/image-error.ts';
import { retryTime } from '../../src/images/retry-time.ts';

const now = Date.UTC(2026, 10, 21, 8, 30);
const HOUR_MS = 3_600_000;

/** In how many hours an address is asked again whose host wants it in so many. */
function hours(wanted?: number, retryable = true) {
  const retryAt = wanted === undefined ? undefined : new Date(now + wanted * HOUR_MS);
  const next = retryTime(new ImageError('No.', { retryable, retryAt }), now);
  return next && (next.getTime() - now) / HOUR_MS;
}

test('an address is asked again when its host says, within bounds, and else after 20 hours', () => {
  assert.equal(hours(), 20);
  assert.equal(hours(3), 3);
  assert.equal(hours(48), 48);
  assert.equal(hours(0.001), 50 / 60);
  assert.equal(hours(-5), 50 / 60);
  assert.equal(hours(1_000_000), 30 * 24);
  assert.equal(hours(undefined, false), null);
});
