import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { cutText, shortenText, storableJson } from '../src/text.ts';

test('a text is cut between characters', () => {
  assert.equal(cutText('дім🏠', 5), 'дім🏠');
  assert.equal(cutText('дім🏠', 4), 'дім');
  assert.equal(cutText('дім🏠', 3), 'дім');
  assert.equal(cutText('🏠', 1), '');
  assert.equal(cutText('🏠', 0), '');
  assert.equal(shortenText('дім 🏠', 5), 'дім…');
  assert.equal(shortenText('дім 🏠', 6), 'дім 🏠');
});

test('whatever the text, its beginning is as long as it may be, and what is well-formed stays so', () => {
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

const read = (value: unknown): unknown => JSON.parse(storableJson(value));

test('NUL characters and halves of pairs are taken out of texts, wherever they stand', () => {
  const hostile = { 'a\0b': ['c\0', { d: '\ud83d', e: 'f\udfe0g', h: { 'i\0': null } }], j: 1 };
  assert.deepEqual(read(hostile), {
    ab: ['c', { d: '\ufffd', e: 'f\ufffdg', h: { i: null } }],
    j: 1,
  });
  assert.equal(read('\udbff'), '\ufffd');
});

test('everything else stays as it is, also a text that writes of such characters', () => {
  const texts = [
    'двокімнатна\n\t\u0001\u007f',
    '\ud83c\udfe0',
    String.raw`\u0000 and \ud83d`,
    '\\',
    '\ue000\uffff',
  ];
  assert.deepEqual(read({ texts, empty: {}, none: null, is: true }), {
    texts,
    empty: {},
    none: null,
    is: true,
  });
});
