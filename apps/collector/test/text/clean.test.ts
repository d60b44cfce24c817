import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { cutText, storableMessage } from '../../src/text.ts';

test('a text is cut between characters, and as late as it may be', () => {
  assert.equal(cutText('аб🏠в', 3), 'аб');
  assert.equal(cutText('аб🏠в', 4), 'аб🏠');
  assert.equal(cutText('аб🏠в', 5), 'аб🏠в');
  assert.equal(cutText('аб', 5), 'аб');
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.nat({ max: 20 }), (text, maxLength) => {
      const cut = cutText(text, maxLength);
      assert.ok(text.startsWith(cut) && cut.isWellFormed());
      assert.ok(cut.length <= maxLength);
      assert.ok(cut.length >= Math.min(text.length, maxLength) - 1);
    }),
  );
});

test('a message is stored as long as it may be, without what cannot be stored', () => {
  assert.equal(storableMessage(' a\0b\uD800 '), 'ab\uFFFD');
  assert.equal(storableMessage(`${'x'.repeat(999)}🏠`), 'x'.repeat(999));
});
