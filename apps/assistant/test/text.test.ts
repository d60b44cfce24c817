import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { cutText, shortenText, storableJson } from '../src/text.ts';

test('A text is cut to a length without splitting a surrogate pair', () => {
  assert.equal(cutText('дім🏠', 5), 'дім🏠');
  assert.equal(cutText('дім🏠', 4), 'дім');
  assert.equal(shortenText('дім 🏠', 5), 'дім…');
  assert.equal(shortenText('дім 🏠', 6), 'дім 🏠');
  const text = fc.string({ unit: fc.constantFrom('a', 'ж', '🏠', '\uD83C', '\uDFE0') });
  fc.assert(
    fc.property(text, fc.nat(12), (whole, length) => {
      const cut = cutText(whole, length);
      assert.ok(whole.startsWith(cut));
      assert.ok(cut.length <= length && cut.length >= Math.min(whole.length, length) - 1);
      if (whole.isWellFormed()) assert.ok(cut.isWellFormed());
    }),
  );
});

test('JSON for the database loses only NUL characters and lone surrogates', () => {
  const read = (value: unknown): unknown => JSON.parse(storableJson(value));
  assert.deepEqual(read({ 'a\0b': ['c\0', { d: '\ud83d', e: { 'f\0': null } }], j: 1 }), {
    ab: ['c', { d: '\ufffd', e: { f: null } }],
    j: 1,
  });
  const texts = ['дім\n\t\u0001\u007f', '\ud83c\udfe0', String.raw`\u0000 and \ud83d`, '\\'];
  assert.deepEqual(read({ texts, empty: {}, is: true }), { texts, empty: {}, is: true });
});
