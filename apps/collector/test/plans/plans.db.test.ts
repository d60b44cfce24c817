import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openTestDatabase } from '@oselya/db/testing';
import type { Tables } from '../../src/tables.ts';
import { migrations } from '../../src/database.ts';
import { collectPlans, DIMENSIONS } from './collect.ts';
import { readPlans } from './files.ts';

const database = await openTestDatabase<Tables>([migrations({ EMBEDDING_DIMENSIONS: DIMENSIONS })]);
const plans = await collectPlans(database);
const reviewed = await readPlans();

test('every main query has a reviewed plan, and every plan its query', () => {
  assert.deepEqual([...reviewed.keys()].toSorted(), [...plans.keys()].toSorted());
});

for (const [name, plan] of plans) {
  test(`${name} is planned as it was reviewed`, () => {
    assert.equal(
      plan,
      reviewed.get(name),
      'If that is meant: npm run plans, and review what changed',
    );
  });
}

test('no main query reads the whole table', () => {
  for (const [name, plan] of plans) assert.doesNotMatch(plan, /^ *Seq Scan/m, name);
});
