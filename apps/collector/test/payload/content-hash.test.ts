import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { contentHash } from '../../src/payload/content-hash.ts';

test('the order of keys does not matter, that of a list does', () => {
  assert.equal(contentHash({ a: 1, b: { c: 2, d: 3 } }), contentHash({ b: { d: 3, c: 2 }, a: 1 }));
  assert.notEqual(contentHash({ a: [1, 2] }), contentHash({ a: [2, 1] }));
  assert.notEqual(contentHash({ a: 1 }), contentHash({ a: '1' }));
  assert.match(contentHash({}), /^[0-9a-f]{64}$/);
});

test('equal JSON has equal hashes, other JSON other ones', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (left, right) => {
      const same = JSON.stringify(left) === JSON.stringify(right);
      if (same) assert.equal(contentHash(left), contentHash(right));
      assert.equal(contentHash(left), contentHash(JSON.parse(JSON.stringify(left))));
    }),
  );
});
