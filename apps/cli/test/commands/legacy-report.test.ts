import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LegacyReport } from '@oselya/assistant';
import { describeAdoption } from '../../src/commands/legacy-report.ts';

const nothing: LegacyReport = {
  sessions: 0,
  facts: { assigned: 0, replaced: [], kept: [], doubles: 0 },
  summaries: { outcome: 'none', legacy: 0 },
};
const run = { userId: 'u-1', dryRun: false };

test('what was assigned is told line by line', () => {
  const report: LegacyReport = {
    sessions: 3,
    facts: {
      assigned: 5,
      replaced: [{ category: 'home', key: 'district' }],
      kept: [{ category: 'home', key: 'rooms' }],
      doubles: 2,
    },
    summaries: { outcome: 'merged', legacy: 2 },
  };
  assert.deepEqual(describeAdoption(report, run), [
    'This is the data of "u-1" now.',
    'sessions assigned: 3',
    'facts assigned: 5',
    '  in place of an older value of the user: 1',
    '    home / district',
    "  deleted, since the user's own value is newer: 1",
    '    home / rooms',
    '  deleted, since another has the name: 2',
    "summary: merged with the user's own (2 as one)",
  ]);
  const [first] = describeAdoption(report, { ...run, dryRun: true });
  assert.equal(first, 'This is what would become the data of "u-1". Nothing was changed.');
});

test('a summary alone is told as well', () => {
  const lines = describeAdoption(
    { ...nothing, summaries: { outcome: 'assigned', legacy: 1 } },
    run,
  );
  assert.deepEqual(lines.slice(1), [
    'sessions assigned: 0',
    'facts assigned: 0',
    'summary: assigned',
  ]);
});

test('nothing to do is one line', () => {
  for (const dryRun of [false, true]) {
    assert.deepEqual(describeAdoption(nothing, { ...run, dryRun }), [
      'Nothing to do: all sessions and all memory have an owner.',
    ]);
  }
});

test('of many names some are told, and how many more there are', () => {
  const kept = Array.from({ length: 23 }, (_, index) => ({ category: 'c', key: `k-${index}` }));
  const lines = describeAdoption({ ...nothing, facts: { ...nothing.facts, kept } }, run);
  assert.equal(lines.filter((line) => line.startsWith('    c / k-')).length, 20);
  assert.ok(lines.includes('    … and 3 more'));
});

test('a name does not act on the terminal', () => {
  const replaced = [{ category: 'a\u001B[2J\nb', key: 'c\u202Ed' }];
  const lines = describeAdoption(
    { ...nothing, facts: { ...nothing.facts, assigned: 1, replaced } },
    { ...run, userId: 'u\u202E' },
  );
  assert.ok(lines.includes('    a[2J b / cd'));
  assert.match(String(lines[0]), /"u"/);
});
