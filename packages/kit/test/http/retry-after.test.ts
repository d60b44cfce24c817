import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LONGEST_RETRY_MS, parseRetryAfter } from '../../src/http/retry-after.ts';

const NOW = Date.parse('2026-11-26T10:00:00Z');

const UNDERSTOOD: readonly [header: string, seconds: number][] = [
  ['57', 57],
  [' 0 ', 0],
  ['007', 7],
  ['1.5', 1.5],
  ['Thu, 26 Nov 2026 10:01:30 GMT', 90],
  ['Thursday, 26-Nov-26 10:01:30 GMT', 90],
  ['Thu Nov 26 10:01:30 2026', 90],
  ['Tue Dec  1 10:00:00 2026', 5 * 24 * 3600],
  ['Thu, 26 Nov 2026 09:00:00 GMT', 0],
  ['Sunday, 06-Nov-94 08:49:37 GMT', 0],
  ['99999999999', LONGEST_RETRY_MS / 1000],
  ['9'.repeat(400), LONGEST_RETRY_MS / 1000],
  ['Sat, 21 Nov 2099 10:00:00 GMT', LONGEST_RETRY_MS / 1000],
];

for (const [header, seconds] of UNDERSTOOD) {
  test(`Retry-After: ${header.slice(0, 40)} is ${seconds} s`, () => {
    assert.equal(parseRetryAfter(header, NOW), seconds * 1000);
  });
}

test('the longest time is one that a timer can wait', () => {
  assert.ok(LONGEST_RETRY_MS < 2 ** 31);
});

test('nothing else is understood', () => {
  const others = ['', '-1', '+5', 'soon', '1e3', '5 s', '1.', 'NaN', '0x10', '5, 6', '2026-11-21'];
  const dates = ['Sat, soon', 'Thu, 26 Nov 2026 10:01:30', 'Sat, 26 Xyz 2026 10:01:30 GMT'];
  for (const header of [...others, ...dates, null, undefined]) {
    assert.equal(parseRetryAfter(header, NOW), undefined, String(header));
  }
});

test('a date is of Greenwich, wherever it is read', () => {
  const zone = process.env['TZ'];
  process.env['TZ'] = 'America/New_York';
  try {
    assert.equal(parseRetryAfter('Thu Nov 26 10:00:10 2026', NOW), 10_000);
  } finally {
    if (zone === undefined) delete process.env['TZ'];
    else process.env['TZ'] = zone;
  }
});
