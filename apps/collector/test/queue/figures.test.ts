import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { Registry } from 'prom-client';
import type { QueueReads } from '../../src/queue/figures.sql.ts';
import { createQueueFigures } from '../../src/queue/figures.ts';
import { registerQueueMetrics } from '../../src/queue/metrics.ts';

/** A queue in which one payload more is pending at each query. The clock is set by hand. */
function countedQueue(ended: { completed: number | null } = { completed: 0 }) {
  const state = { now: 0, queries: 0, fails: false };
  const reads: QueueReads = {
    async standing() {
      state.queries += 1;
      if (state.fails) throw new Error('no database');
      return {
        counts: { pending: state.queries, processing: 0 },
        ended: { ...ended, invalid: 0, failed: 2 },
        oldestPendingSeconds: 30,
        finishedPerMinute: 0,
      };
    },
    countOn: () => new Promise<never>(() => undefined),
  };
  const { read } = createQueueFigures({
    reads,
    onError: assert.ifError,
    clock: () => state.now,
  });
  return { state, readQueue: read };
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

test('the backlog is told while what has ended is counted, however long that takes', async () => {
  const { state, readQueue } = countedQueue({ completed: null });
  for (const nth of [1, 2]) {
    const { counts, endedAgeSeconds } = await readQueue({ maxAgeMs: 0 });
    assert.deepEqual(counts, {
      pending: nth,
      processing: 0,
      completed: null,
      invalid: 0,
      failed: 2,
    });
    assert.equal(endedAgeSeconds, null);
    state.now += 100_000;
  }
  const registry = new Registry();
  registerQueueMetrics(registry, { readQueue, onError: assert.ifError });
  const text = await registry.metrics();
  assert.match(text, /collector_queue_jobs\{status="pending"\} 3\n/);
  assert.match(text, /collector_queue_jobs\{status="failed"\} 2\n/);
  assert.doesNotMatch(text, /status="completed"/, 'nobody knows yet');
});

test('scrapes within five seconds cost one query, and each shows all of it', async () => {
  const { state, readQueue } = countedQueue();
  const registry = new Registry();
  registerQueueMetrics(registry, { readQueue, onError: assert.ifError });
  for (const now of [0, 2000, 5000]) {
    state.now = now;
    const text = await registry.metrics();
    assert.match(text, /collector_queue_jobs\{status="pending"\} 1\n/);
    assert.match(text, /collector_queue_oldest_pending_seconds 30\n/);
  }
  state.now = 5001;
  assert.match(await registry.metrics(), /collector_queue_jobs\{status="pending"\} 2\n/);
});

test('while the database hangs a scrape shows what was known last', async () => {
  const { readQueue } = countedQueue();
  const registry = new Registry();
  let hangs = false;
  registerQueueMetrics(registry, {
    readQueue: (options) => (hangs ? new Promise(() => undefined) : readQueue(options)),
    onError: assert.ifError,
  });
  await registry.metrics();
  hangs = true;
  mock.timers.enable({ apis: ['setTimeout'] });
  const scrape = registry.metrics();
  mock.timers.tick(2000);
  mock.timers.reset();
  const text = await scrape;
  assert.match(text, /collector_queue_jobs\{status="pending"\} 1\n/);
  assert.match(text, /collector_queue_oldest_pending_seconds 30\n/);
});
