import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { cutText, shortenText } from '../src/cut-text.ts';

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
