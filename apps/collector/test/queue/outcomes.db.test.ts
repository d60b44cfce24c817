import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { createMetrics } from '../../src/metrics.ts';
import type { ProcessResult } from '../../src/queue/run-job.ts';
import { fakeBreaker } from '../support/breaker.ts';
import { lossyDatabase } from '../support/lossy-database.ts';
import { until } from '../support/until.ts';
import { completed, LONG, NO_WAIT, openQueue, outcomesOf } from './harness.ts';

const { db, empty, reach, start, statuses, storeMany } = await openQueue();

/** A job that takes until it is given up. */
const untilGivenUp = (signal: AbortSignal) =>
  new Promise<ProcessResult>((resolve) => {
    signal.addEventListener('abort', () => resolve(completed), { once: true });
  });

test('what an outage of the model sends back is returned, and completed later', async () => {
  await storeMany(4);
  const metrics = createMetrics(new Registry());
  let isThere = false;
  const worker = start(async () => (isThere ? completed : { status: 'postponed' }), { metrics });
  await until('all to come back', async () => (await outcomesOf(metrics))['returned'] === 4);
  isThere = true;
  await reach({ completed: 4 });
  await worker.stop(LONG);
  const { returned = 0, ...others } = await outcomesOf(metrics);
  assert.ok(returned >= 4);
  assert.deepEqual(others, { completed: 4 });
  await empty();
});

test('what a stop sends back is returned once, whether it was begun or waited for a slot', async () => {
  await storeMany(60);
  const metrics = createMetrics(new Registry());
  const breaker = fakeBreaker();
  let begun = 0;
  const worker = start(
    async (_, { signal }) => {
      begun += 1;
      // Thirty end at once, so that many are claimed ahead; the ones after them do not end.
      return begun <= 30 ? completed : untilGivenUp(signal);
    },
    { metrics, breaker, pollMs: 60_000, maxWaitMs: 60_000 },
  );
  await until('all slots to be taken', () => begun === 34);
  await until('jobs that wait for one', async () => ((await statuses())['processing'] ?? 0) > 4);
  await worker.stop(NO_WAIT);
  await reach({ completed: 30, pending: 30 });
  const { claims } = await db
    .selectFrom('raw_data')
    .select((eb) => eb.fn.sum<number>('attempt').as('claims'))
    .executeTakeFirstOrThrow();
  const counted = { completed: 30, returned: claims - 30 };
  await until('all to be counted', async () => {
    const { returned } = await outcomesOf(metrics);
    return returned === counted.returned;
  });
  assert.deepEqual(await outcomesOf(metrics), counted);
  await empty();
});

test('what was claimed unheard in an outage of the database is returned', async () => {
  await storeMany(1);
  const metrics = createMetrics(new Registry());
  const lossy = lossyDatabase(db);
  lossy.lose({ statement: 'with recursive', when: 'after', times: 1 });
  const worker = start(async () => completed, { db: lossy.db, metrics });
  await reach({ completed: 1 });
  await worker.stop(LONG);
  assert.deepEqual(await outcomesOf(metrics), { completed: 1, returned: 1 });
  await empty();
});

test('a job whose claim was taken away is lost, and no failure', async () => {
  await storeMany(1);
  const metrics = createMetrics(new Registry());
  const worker = start((_, { signal }) => untilGivenUp(signal), { metrics, leaseMs: 60 });
  await reach({ processing: 1 });
  await db.updateTable('raw_data').set({ status: 'failed', attempt: 7 }).execute();
  await until('it to be given up', async () => (await outcomesOf(metrics))['lost'] === 1);
  await worker.stop(LONG);
  assert.deepEqual(await outcomesOf(metrics), { lost: 1 });
  await empty();
});
