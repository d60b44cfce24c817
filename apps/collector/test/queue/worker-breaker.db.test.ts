import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ProcessResult } from '../../src/queue/run-job.ts';
import { fakeBreaker } from '../support/breaker.ts';
import { until } from '../support/until.ts';
import { completed, LONG, openQueue } from './harness.ts';

const { db, empty, reach, start, statuses, storeMany } = await openQueue();

test('while the breaker is open nothing is claimed; closing it is enough', async () => {
  await storeMany(3);
  const breaker = fakeBreaker('open');
  const worker = start(async () => completed, { breaker });
  await sleep(100);
  assert.deepEqual(await statuses(), { pending: 3 });
  breaker.set('closed');
  await reach({ completed: 3 });
  await worker.stop(LONG);
  await empty();
});

test('half-open lets one job through, the next when it ends, and no stampede', async () => {
  await storeMany(5);
  const breaker = fakeBreaker('half-open');
  const probes: number[] = [];
  let answer: ((result: ProcessResult) => void) | undefined;
  const worker = start(
    (job) => {
      if (breaker.state === 'closed') return Promise.resolve(completed);
      probes.push(job.rawId);
      const { promise, resolve } = Promise.withResolvers<ProcessResult>();
      answer = resolve;
      return promise;
    },
    { breaker },
  );
  await until('a probe', () => probes.length === 1);
  await sleep(100);
  assert.deepEqual(await statuses(), { pending: 4, processing: 1 });

  breaker.set('open');
  answer?.({ status: 'postponed' });
  await reach({ pending: 5 });
  await sleep(60);
  assert.equal(probes.length, 1, 'open again: nothing is tried');

  breaker.set('half-open');
  await until('another probe', () => probes.length === 2);
  assert.notEqual(probes[1], probes[0], 'one bad payload cannot be every probe');
  breaker.set('closed');
  answer?.(completed);
  await reach({ completed: 5 });
  await worker.stop(LONG);
  const attempts = await db.selectFrom('raw_data').select('attempts').execute();
  assert.deepEqual(
    attempts.map((row) => row.attempts),
    [1, 1, 1, 1, 1],
    'the probe that failed cost nothing',
  );
  await empty();
});

test('a probe that goes on after the model answered does not keep the next one back', async () => {
  await storeMany(2);
  const breaker = fakeBreaker('half-open');
  const { promise, resolve } = Promise.withResolvers<ProcessResult>();
  const probes: number[] = [];
  const worker = start(
    (job) => {
      probes.push(job.rawId);
      return promise;
    },
    { breaker, slots: 2 },
  );
  await until('a probe', () => probes.length === 1);
  // The model answers, but fails again before the job ends; nothing is claimed between the two.
  breaker.set('open');
  breaker.set('half-open');
  await until('another probe', () => probes.length === 2);
  resolve(completed);
  await reach({ completed: 2 });
  await worker.stop(LONG);
  await empty();
});

test('jobs that were claimed ahead are returned when the model goes away, and at shutdown', async () => {
  await storeMany(60);
  const breaker = fakeBreaker();
  const { promise: until30, resolve: hold } = Promise.withResolvers<void>();
  const { promise: held, resolve: letGo } = Promise.withResolvers<void>();
  let begun = 0;
  // Thirty end at once, so that many are claimed ahead; the ones after them do not end.
  const worker = start(
    async () => {
      begun += 1;
      if (begun <= 30) return completed;
      hold();
      await held;
      return completed;
    },
    { breaker, pollMs: 60_000 },
  );
  await until30;
  await until('all slots to be taken', () => begun === 34);
  breaker.set('open');
  await reach({ completed: 30, processing: 4, pending: 26 });
  breaker.set('closed');
  const stopping = worker.stop(LONG);
  letGo();
  await stopping;
  const found = await statuses();
  assert.deepEqual([found['processing'], found['failed']], [undefined, undefined]);
  const rows = await db.selectFrom('raw_data').select(['attempts', 'status']).execute();
  assert.ok(rows.every(({ attempts, status }) => attempts === (status === 'completed' ? 1 : 0)));
  await empty();
});

test('jobs that were claimed ahead do not wait behind long ones: another worker takes them', async () => {
  await storeMany(60);
  const { promise: held, resolve: letGo } = Promise.withResolvers<void>();
  let begun = 0;
  const busy = start(
    async () => {
      begun += 1;
      if (begun > 30) await held;
      return completed;
    },
    { pollMs: 60_000, maxWaitMs: 50 },
  );
  await until('all slots to be taken', () => begun === 34);
  await reach({ completed: 30, processing: 4, pending: 26 });
  const idle = start(async () => completed);
  await reach({ completed: 56, processing: 4 });
  letGo();
  await reach({ completed: 60 });
  await Promise.all([busy.stop(LONG), idle.stop(LONG)]);
  const rows = await db.selectFrom('raw_data').select('attempts').execute();
  assert.ok(
    rows.every(({ attempts }) => attempts === 1),
    'and it cost them nothing',
  );
  await empty();
});
