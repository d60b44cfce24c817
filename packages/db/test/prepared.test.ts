import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { isPrepared, offlineDatabase, prepared, unplanned } from '../src/index.ts';
import { preparedName } from '../src/prepared.ts';

const { db } = offlineDatabase<object>();
const textOf = (count: number) =>
  sql`${prepared}select id from jobs limit ${unplanned(count)}`.compile(db).sql;

test('a statement has one name for all values, and an ordinary one has none', () => {
  const name = preparedName(textOf(1));
  assert.match(String(name), /^[0-9a-f]{32}$/);
  assert.equal(preparedName(textOf(2)), name);
  assert.notEqual(preparedName(`${textOf(1)} offset 1`), name);
  const ordinary = sql`select id from jobs limit ${1}`.compile(db).sql;
  assert.equal(preparedName(ordinary), undefined);
  assert.deepEqual([isPrepared(textOf(1)), isPrepared(ordinary)], [true, false]);
});

test('texts without end get no names without end', () => {
  const kept = preparedName(textOf(1));
  const names = Array.from({ length: 500 }, (_, nth) => preparedName(`${textOf(1)} -- ${nth}`));
  assert.ok(names.filter((name) => name !== undefined).length < 200);
  assert.equal(preparedName(textOf(1)), kept);
});
