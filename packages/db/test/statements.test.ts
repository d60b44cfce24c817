import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import {
  isPrepared,
  createOfflineDatabase,
  prepared,
  retryConflicts,
  hideFromPlanner,
} from '../src/index.ts';
import { getPreparedName } from '../src/statements.ts';

const { db } = createOfflineDatabase<object>();
const textOf = (count: number) =>
  sql`${prepared}select id from jobs limit ${hideFromPlanner(count)}`.compile(db).sql;

test('a statement has one name for all values, and an ordinary one has none', () => {
  const name = getPreparedName(textOf(1));
  assert.match(String(name), /^[0-9a-f]{32}$/);
  assert.equal(getPreparedName(textOf(2)), name);
  assert.notEqual(getPreparedName(`${textOf(1)} offset 1`), name);
  const ordinary = sql`select id from jobs limit ${1}`.compile(db).sql;
  assert.equal(getPreparedName(ordinary), undefined);
  assert.deepEqual([isPrepared(textOf(1)), isPrepared(ordinary)], [true, false]);
});

const failure = (code: string) => Object.assign(new Error(code), { code });

/** Work that fails with these, one after another, and then gives how often it was begun. */
function failing(...codes: string[]) {
  let begun = 0;
  const work = () => {
    begun += 1;
    const code = codes[begun - 1];
    return code === undefined ? Promise.resolve(begun) : Promise.reject(failure(code));
  };
  return { work, begun: () => begun };
}

test('a deadlock victim is repeated', async () => {
  assert.equal(await retryConflicts(failing('40P01').work), 2);
  assert.equal(await retryConflicts(failing('40001', '40P01').work), 3);
});

test('a statement is repeated at most three times', async () => {
  const conflicts = failing('40P01', '40P01', '40P01');
  await assert.rejects(retryConflicts(conflicts.work), { code: '40P01' });
  assert.equal(conflicts.begun(), 3);
  const wrong = failing('23505');
  await assert.rejects(retryConflicts(wrong.work), { code: '23505' });
  assert.equal(wrong.begun(), 1);
});
