import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ImageError } from '../../src/images/image-error.ts';
import { parseRetryAfter, retryTime } from '../../src/images/retry-time.ts';

const now = Date.UTC(2026, 10, 21, 8, 30);
const HOUR_MS = 3_600_000;

/** In how many seconds what a host says is. */
function seconds(value: string) {
  const time = parseRetryAfter(value, now);
  return time && (time.getTime() - now) / 1000;
}

test('a host names a time in seconds or as a date; nothing else is understood', () => {
  assert.equal(seconds('120'), 120);
  assert.equal(seconds(' 0 '), 0);
  assert.equal(seconds('Sat, 21 Nov 2026 08:31:00 GMT'), 60);
  assert.equal(seconds('Saturday, 21-Nov-26 08:31:00 GMT'), 60);
  assert.equal(seconds('Sat, 21 Nov 2026 08:29:00 GMT'), -60, 'it has passed');
  for (const value of ['', '-1', '1.5', 'soon', '1e3', '99999999999', 'Sat, soon', '2026-11-21']) {
    assert.equal(seconds(value), undefined, value);
  }
});

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
