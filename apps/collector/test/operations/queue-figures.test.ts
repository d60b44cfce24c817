import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import type { QueueReads } from '../../src/operations/queue-figures.sql.ts';
import { createReadQueue } from '../../src/operations/queue-figures.ts';
import { registerQueueMetrics } from '../../src/operations/queue-metrics.ts';

/**
 * A queue in which one payload more is pending at each query, and one more has ended, and a clock that is
 * set by hand. To count what has ended takes `costMs`.
 */
function countedQueue({ costMs = 0 } = {}) {
  const state = { now: 0, queries: 0, endedQueries: 0, fails: false };
  const reads: QueueReads = {
    async backlog() {
      state.queries += 1;
      if (state.fails) throw new Error('no database');
      return { counts: { pending: state.queries, processing: 0 }, oldestPendingSeconds: null };
    },
    async ended() {
      state.endedQueries += 1;
      if (state.fails) throw new Error('no database');
      state.now += costMs;
      const counts = { completed: state.endedQueries, invalid: 0, failed: 0 };
      return { counts, finishedPerMinute: 0 };
    },
  };
  return { state, readQueue: createReadQueue(reads, () => state.now) };
}

test('all who ask while a query runs share it', async () => {
  const { state, readQueue } = countedQueue();
  await Promise.all(Array.from({ length: 20 }, () => readQueue({ maxAgeMs: 0 })));
  assert.equal(state.queries, 1);
  await readQueue({ maxAgeMs: 0 });
  assert.equal(state.queries, 2);
});

test('figures serve those who take so old ones', async () => {
  const { state, readQueue } = countedQueue();
  await readQueue({ maxAgeMs: 5000 });
  state.now = 4999;
  assert.equal((await readQueue({ maxAgeMs: 5000 })).counts.pending, 1);
  assert.equal((await readQueue({ maxAgeMs: 1000 })).counts.pending, 2);
  state.now = 9999;
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

test('what is quick to count is counted each time', async () => {
  const { readQueue } = countedQueue({ costMs: 20 });
  for (const completed of [1, 2, 3]) {
    assert.equal((await readQueue({ maxAgeMs: 0 })).counts.completed, completed);
  }
});

test('what takes long to count is kept for a hundred times as long, and nothing else is', async () => {
  const { state, readQueue } = countedQueue({ costMs: 130 });
  const counts = async () => {
    const { pending, completed } = (await readQueue({ maxAgeMs: 0 })).counts;
    return [pending, completed];
  };
  assert.deepEqual(await counts(), [1, 1]);
  state.now = 12_999;
  assert.deepEqual(await counts(), [2, 1]);
  state.now = 13_000;
  assert.deepEqual(await counts(), [3, 2]);
});

test('scrapes within five seconds cost one query', async () => {
  const { state, readQueue } = countedQueue();
  const registry = new Registry();
  registerQueueMetrics(registry, { readQueue, onError: assert.ifError });
  for (const now of [0, 2000, 4999]) {
    state.now = now;
    assert.match(await registry.metrics(), /collector_queue_jobs\{status="pending"\} 1\n/);
  }
  state.now = 5000;
  assert.match(await registry.metrics(), /collector_queue_jobs\{status="pending"\} 2\n/);
});
