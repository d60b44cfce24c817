import assert from 'node:assert/strict';
import { test } from 'node:test';
import { storableJson } from '../src/storable-json.ts';

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
