import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createTally, perMinute, perMinuteOfEach } from '../src/counting.ts';

test('a budget is for a minute from its first use', (t) => {
  let now = 1_000_000;
  t.mock.method(performance, 'now', () => now);
  const spend = perMinute(2);
  assert.deepEqual([spend(), spend(), spend(), spend()], [true, true, false, false]);
  now += 59_999;
  assert.ok(!spend());
  now += 1;
  assert.deepEqual([spend(), spend(), spend()], [true, true, false]);
});

test('each key has a budget of its own for a minute, and is told how long to wait for the next', (t) => {
  let now = 1_000_000;
  t.mock.method(performance, 'now', () => now);
  const budgets = perMinuteOfEach(10);
  assert.equal(budgets.wait('a'), 0);
  budgets.spend('a', 9);
  now += 1500;
  assert.equal(budgets.wait('a'), 0);
  budgets.spend('a', 9);
  assert.deepEqual([budgets.wait('a'), budgets.wait('b')], [59, 0]);
  now += 58_499;
  assert.equal(budgets.wait('a'), 1);
  now += 1;
  assert.equal(budgets.wait('a'), 0);
});

test('a tally counts by key and keeps nothing of a key without a count', () => {
  const tally = createTally();
  assert.equal(tally.of('a'), 0);
  assert.deepEqual([tally.add('a'), tally.add('a'), tally.add('b')], [1, 2, 1]);
  assert.deepEqual([tally.of('a'), tally.size], [2, 2]);
  tally.remove('a');
  tally.remove('b');
  assert.deepEqual([tally.of('a'), tally.of('b'), tally.size], [1, 0, 1]);
  tally.remove('a');
  tally.remove('unknown');
  assert.equal(tally.size, 0);
});
