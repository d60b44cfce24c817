import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatNumber, formatRange, formatTable } from '../src/report.ts';

test('a table aligns its first column to the left and its numbers to the right', () => {
  const text = formatTable(
    ['', 'requests/s'],
    [
      ['assistant', '1,234'],
      ['constant', '9'],
    ],
  );
  assert.equal(
    text,
    [
      '|           | requests/s |',
      '| --------- | ---------: |',
      '| assistant |      1,234 |',
      '| constant  |          9 |',
    ].join('\n'),
  );
});

test('numbers are rounded and have thousands separators', () => {
  assert.equal(formatNumber(1234.5678), '1,235');
  assert.equal(formatNumber(0.5, 2), '0.50');
  assert.equal(formatRange({ median: 2, min: 1.25, max: 1000 }, 1), '2.0 (1.3–1,000.0)');
});
