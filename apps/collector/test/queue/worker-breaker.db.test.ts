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

test('half-open keeps no slot empty: only jobs that ask the one server need its probe', async () => {
  await storeMany(10);
  const four = Promise.withResolvers<void>();
  let begun = 0;
  const worker = start(
    async () => {
      begun += 1;
      if (begun === 4) four.resolve();
      await four.promise;
      return completed;
    },
    { breaker: fakeBreaker('half-open') },
  );
  await reach({ completed: 10 });
  await worker.stop(LONG);
  await empty();
});

test('once a job came back from the probe nothing is claimed until that has ended', async () => {
  await storeMany(9);
  const breaker = fakeBreaker('half-open');
  const probe = Promise.withResolvers<ProcessResult>();
  const begun: number[] = [];
  const worker = start(
    (job) => {
      begun.push(job.rawId);
      if (breaker.state === 'closed') return Promise.resolve(completed);
      if (breaker.isProbing) return Promise.resolve({ status: 'postponed' });
      breaker.probe(true);
      return probe.promise;
    },
    { breaker },
  );
  await reach({ pending: 8, processing: 1 });
  assert.equal(begun.length, 4, 'those that were refused are back, and no others came');
  await sleep(100);
  assert.equal(begun.length, 4);

  breaker.set('open');
  probe.resolve({ status: 'postponed', isSuspect: true });
  await reach({ pending: 9 });
  await sleep(100);
  assert.equal(begun.length, 4, 'open again: nothing is tried');

  breaker.set('half-open');
  await until('another probe', () => begun.length > 4);
  assert.notEqual(begun[4], begun[0], 'one bad payload cannot be every probe');
  breaker.set('closed');
  await reach({ completed: 9 });
  await worker.stop(LONG);
  const attempts = await db.selectFrom('raw_data').select('attempts').execute();
  assert.ok(
    attempts.every((row) => row.attempts === 1),
    'what came back cost nothing',
  );
  await empty();
});

test('a probe whose end nobody told, or told before the refused job was back, keeps nothing', async () => {
  for (const endsFirst of [false, true]) {
    await storeMany(6);
    const breaker = fakeBreaker('half-open');
    breaker.probe(true);
    let begun = 0;
    const worker = start(
      () => {
        begun += 1;
        if (!breaker.isProbing) return Promise.resolve(completed);
        if (endsFirst) breaker.set('half-open');
        return Promise.resolve({ status: 'postponed' });
      },
      { breaker },
    );
    if (!endsFirst) {
      await reach({ pending: 6 });
      await until('jobs to be refused', () => begun === 4);
      breaker.probe(false);
    }
    await reach({ completed: 6 });
    await worker.stop(LONG);
    await empty();
  }
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
