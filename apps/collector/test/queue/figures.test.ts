import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import type { QueueReads } from '../../src/queue/figures.sql.ts';
import { createReadQueue } from '../../src/queue/figures.ts';
import { registerQueueMetrics } from '../../src/queue/metrics.ts';

/**
 * A queue in which one payload more is pending at each query, and one more has ended each time that those
 * are counted, which takes `costMs`. The clock is set by hand.
 */
function countedQueue({ ended = 0, costMs = 0 } = {}) {
  const state = { now: 0, queries: 0, fails: false };
  let completed = ended;
  const reads: QueueReads = {
    async all() {
      const backlog = await reads.backlog();
      state.now += costMs;
      completed += 1;
      const counts = { completed, invalid: 0, failed: 0 };
      return { backlog, ended: { counts, finishedPerMinute: 0 } };
    },
    async backlog() {
      state.queries += 1;
      if (state.fails) throw new Error('no database');
      return { counts: { pending: state.queries, processing: 0 }, oldestPendingSeconds: null };
    },
  };
  const readQueue = createReadQueue(reads, () => state.now);
  const counts = async () => {
    const figures = await readQueue({ maxAgeMs: 0 });
    return [figures.counts.pending, figures.counts.completed];
  };
  return { state, readQueue, counts };
}

test('all who ask at one moment share a query, and those who ask while it runs the next one', async () => {
  const { state, readQueue } = countedQueue();
  const ask = () => Array.from({ length: 20 }, () => readQueue({ maxAgeMs: 0 }));
  const first = ask();
  state.now = 1;
  const second = ask();
  const pending = (await Promise.all([...first, ...second])).map(({ counts }) => counts.pending);
  assert.deepEqual(new Set(pending.slice(0, 20)), new Set([1]));
  assert.deepEqual(
    new Set(pending.slice(20)),
    new Set([2]),
    'the first may not show what they changed',
  );
  assert.equal(state.queries, 2);
});

test('figures serve those who take so old ones', async () => {
  const { state, readQueue } = countedQueue();
  await readQueue({ maxAgeMs: 5000 });
  state.now = 5000;
  assert.equal((await readQueue({ maxAgeMs: 5000 })).counts.pending, 1);
  assert.equal((await readQueue({ maxAgeMs: 1000 })).counts.pending, 2);
  state.now = 10_001;
  assert.equal((await readQueue({ maxAgeMs: 5000 })).counts.pending, 3);
});

test('a failure is told to all who wait, and not kept', async () => {
  const { state, readQueue } = countedQueue();
  state.fails = true;
  const ends = await Promise.allSettled([
    readQueue({ maxAgeMs: 5000 }),
    readQueue({ maxAgeMs: 0 }),
  ]);
  assert.deepEqual(
    ends.map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  state.fails = false;
  assert.equal((await readQueue({ maxAgeMs: 5000 })).counts.pending, 2);
});

test('what has ended is counted each time, however long a busy database takes', async () => {
  const { state, counts } = countedQueue({ ended: 99_997, costMs: 5000 });
  for (const nth of [1, 2, 3]) {
    assert.deepEqual(await counts(), [nth, 99_997 + nth]);
    state.now += 1;
  }
});

test('more than 100,000 are counted once in a hundred times as long as it takes', async () => {
  const { state, counts } = countedQueue({ ended: 100_000, costMs: 130 });
  assert.deepEqual(await counts(), [1, 100_001]);
  state.now = 12_999;
  assert.deepEqual(await counts(), [2, 100_001]);
  state.now = 13_000;
  assert.deepEqual(await counts(), [3, 100_002]);
});

test('they are counted once in a minute, however long it takes', async () => {
  const { state, counts } = countedQueue({ ended: 100_000, costMs: 2000 });
  await counts();
  state.now = 59_999;
  assert.deepEqual(await counts(), [2, 100_001]);
  state.now = 60_000;
  assert.deepEqual(await counts(), [3, 100_002]);
});

test('scrapes within five seconds cost one query', async () => {
  const { state, readQueue } = countedQueue();
  const registry = new Registry();
  registerQueueMetrics(registry, { readQueue, onError: assert.ifError });
  for (const now of [0, 2000, 5000]) {
    state.now = now;
    assert.match(await registry.metrics(), /collector_queue_jobs\{status="pending"\} 1\n/);
  }
  state.now = 5001;
  assert.match(await registry.metrics(), /collector_queue_jobs\{status="pending"\} 2\n/);
});
