import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEndedCounts } from '../../src/queue/ended-counts.ts';
import type { Place, QueueReads } from '../../src/queue/figures.sql.ts';
import { until } from '../support/until.ts';

const MINUTE_MS = 60_000;

/**
 * Completed payloads that are counted 100 at a time, which takes `costMs`. The clock is set by hand; while `fails`
 * nothing can be counted.
 */
function countedPayloads(completed: number) {
  const state = { now: 0, completed, costMs: 0, fails: false, pieces: 0, errors: 0 };
  const countOn: QueueReads['countOn'] = async (status, after) => {
    assert.equal(status, 'completed');
    const from = after?.id ?? 0;
    state.pieces += 1;
    state.now += state.costMs;
    if (state.fails) throw new Error('no database');
    const count = Math.min(100, state.completed - from);
    const next: Place | undefined = count < 100 ? undefined : { at: 'then', id: from + count };
    return { count, next };
  };
  const counts = createEndedCounts({
    countOn,
    onError: () => (state.errors += 1),
    clock: () => state.now,
  });
  /** What is known to somebody who looks now; more than 100 are too many to be counted then. */
  const look = () => {
    const seen = state.completed > 100 ? null : state.completed;
    return counts.complete({ completed: seen, invalid: 5, failed: 0 }, state.now);
  };
  const completedAt = async (count: number) =>
    until(`a count of ${count}`, () => look().counts.completed === count);
  return { state, counts, look, completedAt };
}

test('few are known at once, with no count in the background', () => {
  const { state, look } = countedPayloads(100);
  assert.deepEqual(look(), { counts: { completed: 100, invalid: 5, failed: 0 }, ageSeconds: 0 });
  state.completed = 90;
  assert.equal(look().counts.completed, 90);
  assert.equal(state.pieces, 0);
});

test('many are counted piece by piece, while nobody waits', async () => {
  const { state, look, completedAt } = countedPayloads(730);
  assert.deepEqual(look(), {
    counts: { completed: null, invalid: 5, failed: 0 },
    ageSeconds: null,
  });
  await completedAt(730);
  assert.equal(state.pieces, 8);
  state.now = 2000;
  assert.equal(look().ageSeconds, 2);
});

test('they are counted again a minute later, and until then what was counted is told', async () => {
  const { state, look, completedAt } = countedPayloads(730);
  look();
  await completedAt(730);
  state.completed = 810;
  state.now = MINUTE_MS - 1;
  assert.equal(look().counts.completed, 730);
  assert.equal(state.pieces, 8);
  state.now = MINUTE_MS;
  assert.equal(look().counts.completed, 730, 'nobody waits for it');
  await completedAt(810);
});

test('those that few become are known at once', async () => {
  const { state, look, completedAt } = countedPayloads(730);
  look();
  await completedAt(730);
  state.completed = 20;
  assert.equal(look().counts.completed, 20);
  state.completed = 150;
  assert.equal(look().counts.completed, 20, 'what was known last, until they are counted again');
  state.now = MINUTE_MS;
  look();
  await completedAt(150);
});

test('a failure is told, keeps what was counted, and is tried again a minute later', async () => {
  const { state, look, completedAt } = countedPayloads(250);
  look();
  await completedAt(250);
  state.fails = true;
  state.now = MINUTE_MS;
  look();
  await until('the failure', () => state.errors === 1);
  assert.equal(look().counts.completed, 250);
  assert.equal(look().ageSeconds, 60);
  state.fails = false;
  state.completed = 260;
  state.now = 2 * MINUTE_MS;
  look();
  await completedAt(260);
  assert.equal(state.errors, 1);
});

test('it rests longer than it counts, and a close ends the rest', async () => {
  const { state, counts, look } = countedPayloads(730);
  // Nobody would see the end of nine times that.
  state.costMs = 10 * MINUTE_MS;
  look();
  await counts.close();
  assert.equal(state.pieces, 1);
  state.now += 100 * MINUTE_MS;
  look();
  assert.equal(state.pieces, 1, 'it is closed');
  assert.equal(state.errors, 0);
});
