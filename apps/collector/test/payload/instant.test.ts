import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseTime } from '../../src/ingest/payload.ts';

test('a leap second is the second before, in any zone; other texts are what they say', () => {
  for (const [text, instant] of [
    ['2016-12-31T23:59:60Z', '2016-12-31T23:59:59.000Z'],
    ['2017-01-01T01:59:60.5+02:00', '2016-12-31T23:59:59.500Z'],
    ['2026-05-01T10:00:00+03:00', '2026-05-01T07:00:00.000Z'],
  ] as const) {
    assert.equal(parseTime(text).toISOString(), instant);
  }
  assert.ok(Number.isNaN(parseTime('yesterday').getTime()));
});
