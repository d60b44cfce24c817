import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseRows, readSpecCoverage, createTestFinder } from '../spec-coverage.ts';

const { rows, unusedEntries } = readSpecCoverage();

test('every row of the specifications and pitfalls names a test that exists', () => {
  const findFiles = createTestFinder();
  const missingTests = rows.flatMap(({ page, heading, text, tests }) => {
    const row = `${page}, ${heading}: ${text.slice(0, 80)}`;
    if (tests.length === 0) return [`${row} has no test`];
    return tests
      .filter((name) => findFiles(name).length === 0)
      .map((name) => `${row} names no test: ${name}`);
  });
  assert.deepEqual(missingTests, []);
  assert.ok(rows.length > 185);
});

test('every entry fits a row', () => {
  assert.deepEqual(unusedEntries, []);
});

test('rows are read from tables', () => {
  const table = '## Limits\n\n| Limit | Value |\n| --- | --- |\n| a  | 1 |\n| b | 2 |\n';
  assert.deepEqual(
    parseRows(table).map(({ text }) => text),
    ['| a | 1 |', '| b | 2 |'],
  );
});
