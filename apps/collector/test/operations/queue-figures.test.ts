import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import type { QueueFigures } from '../../src/operations/queue-figures.sql.ts';
import { createReadQueue } from '../../src/operations/queue-figures.ts';
import { registerQueueMetrics } from '../../src/operations/queue-metrics.ts';

/** A queue in which one payload more is pending at each query, and a clock that is set by hand. */
function countedQueue() {
  const state = { now: 0, queries: 0, fails: false };
  const readQueue = createReadQueue(
    async (): Promise<QueueFigures> => {
      state.queries += 1;
      if (state.fails) throw new Error('no database');
      const counts = { pending: state.queries, processing: 0, completed: 0, invalid: 0, failed: 0 };
      return { counts, oldestPendingSeconds: null, finishedPerMinute: 0 };
    },
    () => state.now,
  );
  return { state, readQueue };
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
