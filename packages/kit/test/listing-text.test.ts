import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatListingId, formatNumber, formatPrice } from '../src/index.ts';

test('numbers, prices and ids of listings are written one way, with spaces that do not break', () => {
  assert.deepEqual([9500, 1_234_567.125, 52.5].map(formatNumber), [
    '9\u00A0500',
    '1\u00A0234\u00A0567,13',
    '52,5',
  ]);
  assert.equal(formatPrice(15_000, 'UAH'), '15\u00A0000\u00A0UAH');
  for (const none of [null, undefined, '']) assert.equal(formatPrice(15_000, none), '15\u00A0000');
  assert.equal(formatListingId(22), '#22');
});
