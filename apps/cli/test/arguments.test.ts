import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PayloadSchema } from '@oselya/collector/payload';
import { Value } from 'typebox/value';
import { sourceSlug } from '../src/arguments.ts';

const isTaken = (value: string) => Value.Check(PayloadSchema.properties.source_slug, value);

test('a source slug is what the schema of a payload takes', () => {
  for (const value of ['a', '9', 'lviv-doshka', 'a_b', 'z'.repeat(64)]) {
    assert.ok(isTaken(value), value);
    assert.equal(sourceSlug(value), value);
  }
  for (const value of ['', '-a', '_a', 'Doshka', 'a b', 'дошка', 'a\n', 'z'.repeat(65)]) {
    assert.ok(!isTaken(value), value);
    assert.throws(() => sourceSlug(value), /A source slug has lower-case letters/, value);
  }
});
