import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isRecent } from '../../src/database.ts';

for (const [version, expected] of [
  ['0.7.4', false],
  ['0.8.0', true],
  ['0.10.1', true],
  ['1.0', true],
  ['missing', false],
] as const) {
  test(`pgvector ${version} ${expected ? 'serves' : 'does not serve'}`, () => {
    assert.equal(isRecent(version), expected);
  });
}
