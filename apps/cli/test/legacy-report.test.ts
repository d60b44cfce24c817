import assert from 'node:assert/strict';
import { describeReport } from '../src/commands/assign-legacy.ts';
import { type LegacyReport } from '@oselya/assistant';
import { suite, test } from 'node:test';

suite('report', () => {
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
    assert.deepEqual(describeReport(report, run), [
      'This is now the data of "u-1".',
      'sessions assigned: 3',
      'facts assigned: 5',
      '  replace an older value of the user: 1',
      '    home / district',
      "  deleted, because the user's own value is newer: 1",
      '    home / rooms',
      '  deleted as doubles of the same name: 2',
      "summary: merged with the user's own (2 as one)",
    ]);
    const [first] = describeReport(report, { ...run, dryRun: true });
    assert.equal(first, 'This would become the data of "u-1". Nothing was changed.');
  });

  test('a summary alone is told as well', () => {
    const lines = describeReport(
      { ...nothing, summaries: { outcome: 'assigned', legacy: 1 } },
      run,
    );
    assert.deepEqual(lines.slice(1), [
      'sessions assigned: 0',
      'facts assigned: 0',
      'summary: assigned',
    ]);
  });

  test('of many names some are told, and how many more there are', () => {
    const kept = Array.from({ length: 23 }, (_, index) => ({ category: 'c', key: `k-${index}` }));
    const lines = describeReport({ ...nothing, facts: { ...nothing.facts, kept } }, run);
    assert.equal(lines.filter((line) => line.startsWith('    c / k-')).length, 20);
    assert.ok(lines.includes('    … and 3 more'));
  });

  test('a name does not act on the terminal', () => {
    const replaced = [{ category: 'a\u001B[2J\nb', key: 'c\u202Ed' }];
    const lines = describeReport(
      { ...nothing, facts: { ...nothing.facts, assigned: 1, replaced } },
      { ...run, userId: 'u\u202E' },
    );
    assert.ok(lines.includes('    a[2J b / cd'));
    assert.match(String(lines[0]), /"u"/);
  });
});
