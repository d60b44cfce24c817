import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { contentHash } from '../../src/ingest/payload.ts';

test('the order of keys does not matter, that of a list does', () => {
  assert.equal(contentHash({ a: 1, b: { c: 2, d: 3 } }), contentHash({ b: { d: 3, c: 2 }, a: 1 }));
  assert.notEqual(contentHash({ a: [1, 2] }), contentHash({ a: [2, 1] }));
  assert.notEqual(contentHash({ a: 1 }), contentHash({ a: '1' }));
  assert.match(contentHash({}), /^[0-9a-f]{64}$/);
});

test('equal JSON has equal hashes, other JSON other ones', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (left, right) => {
      assert.equal(contentHash(left), contentHash(stored(left)));
      if (isDeepStrictEqual(stored(left), stored(right))) {
        assert.equal(contentHash(left), contentHash(right));
      } else {
        assert.notEqual(contentHash(left), contentHash(right));
      }
    }),
  );
});

test('a change of one value has another hash, however deep it is', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.constant('list'), fc.string()), { maxLength: 8 }), (path) => {
      const within = (leaf: string) =>
        path.reduceRight<unknown>(
          (value, key) => (key === 'list' ? [{ beside: 1 }, value] : { [key]: value, beside: 1 }),
          leaf,
        );
      assert.equal(contentHash(within('a')), contentHash(within('a')));
      assert.notEqual(contentHash(within('a')), contentHash(within('b')));
    }),
  );
});

/** A value as it is read again: without what JSON has no word for, such as -0. */
const stored = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
