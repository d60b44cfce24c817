import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { mergeSummaries } from '../../src/assign-legacy.ts';

const cases: [string, string[], string][] = [
  ['nothing is an empty text', [], ''],
  ['one text stays', ['Шукає дім.'], 'Шукає дім.'],
  ['the older text comes first, a blank line between', ['Older.', 'Newer.'], 'Older.\n\nNewer.'],
  ['white space around a text goes', [' Older.\n', '\n\nNewer. '], 'Older.\n\nNewer.'],
  ['empty texts leave no trace', ['', ' \n', 'Text.', ''], 'Text.'],
  ['only empty texts are an empty text', ['', ' '], ''],
  ['the same text is told once', ['Same.', 'Other.', 'Same.'], 'Same.\n\nOther.'],
  [
    'a text within an older one is not told again',
    ['Two rooms. A balcony.', 'A balcony.'],
    'Two rooms. A balcony.',
  ],
  [
    'nor one within a newer one',
    ['A balcony.', 'Own words.', 'Two rooms. A balcony.'],
    'Own words.\n\nTwo rooms. A balcony.',
  ],
];
for (const [name, texts, expected] of cases) {
  test(name, () => assert.equal(mergeSummaries(texts), expected));
}

test('every text is told, and merging what was merged changes nothing', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'grapheme', maxLength: 6 })), (texts) => {
      const merged = mergeSummaries(texts);
      for (const text of texts) assert.ok(merged.includes(text.trim()));
      assert.equal(mergeSummaries([merged, ...texts]), merged);
    }),
  );
});
