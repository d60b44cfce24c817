import assert from 'node:assert/strict';
import { test } from 'node:test';
import { retryAfterMs, type ResponseHeaders } from '../../src/transport/retry-after.ts';

const NOW = Date.parse('2026-03-01T12:00:00Z');

const cases: [headers: ResponseHeaders, milliseconds: number | undefined][] = [
  [{}, undefined],
  [{ 'retry-after': '5' }, 5_000],
  [{ 'retry-after': ' 0 ' }, 0],
  [{ 'retry-after': '1.5' }, 1_500],
  [{ 'retry-after': 'Sun, 01 Mar 2026 12:00:20 GMT' }, 20_000],
  [{ 'retry-after': 'Sunday, 01-Mar-26 12:00:20 GMT' }, 20_000],
  [{ 'retry-after': 'Sun, 01 Mar 2026 11:00:00 GMT' }, 0],
  [{ 'retry-after': ['7', '9'] }, 7_000],
  [{ 'retry-after': '5', 'retry-after-ms': '120' }, 120],
  [{ 'retry-after': '5', 'retry-after-ms': 'soon' }, 5_000],
  [{ 'retry-after': '-5' }, undefined],
  [{ 'retry-after': 'later' }, undefined],
  [{ 'retry-after': '2026x' }, undefined],
  [{ 'retry-after': 'NaN' }, undefined],
  [{ 'retry-after': '' }, undefined],
];
for (const [headers, milliseconds] of cases) {
  test(`${JSON.stringify(headers)} is ${milliseconds ?? 'nothing'}`, () => {
    assert.equal(retryAfterMs(headers, NOW), milliseconds);
  });
}
