import assert from 'node:assert/strict';
import { test } from 'node:test';
import { endExclusiveTurn, takeExclusiveTurn } from '../../src/turns/exclusive.sql.ts';
import { openDatabase } from '../support/database.ts';

const { db } = await openDatabase();

const take = (longestMs = 60_000, name = 'work') => takeExclusiveTurn(db, name, longestMs);

test('of all that take a turn one has it, until it ends or was never heard of again', async () => {
  const taken = await Promise.all(Array.from({ length: 5 }, () => take()));
  const [first, ...more] = taken.filter((turn) => turn !== undefined);
  assert.ok(first);
  assert.deepEqual(more, []);
  assert.ok(await take(60_000, 'other work'), 'which is nothing to other work');
  await endExclusiveTurn(db, first);
  const second = await take();
  assert.ok(second, 'it comes around at once');
  const third = await take(0);
  assert.ok(third, 'the second has taken too long');
  await endExclusiveTurn(db, second);
  assert.equal(await take(), undefined, 'and ends no other one when it comes back');
  await endExclusiveTurn(db, third);
  assert.ok(await take());
});
