import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { createMetrics } from '../../src/metrics.ts';
import { claimJobs } from '../../src/queue/claim.sql.ts';
import { createGiveBack } from '../../src/queue/give-back.ts';
import { returnJobs } from '../../src/queue/return.sql.ts';
import { createJobRunner, type ProcessResult } from '../../src/queue/run-job.ts';
import { untilLockWait } from '../support/lock-waits.ts';
import { lossyDatabase } from '../support/lossy-database.ts';
import { log } from '../support/pipeline.ts';
import { until } from '../support/until.ts';
import { watchedDatabase } from '../support/watched-database.ts';
import { completed, LONG, NO_WAIT, openQueue, countOutcomes } from './harness.ts';

const { db, isExclusive, empty, reach, start, statuses, storeMany } = await openQueue();

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
  await until('all to come back', async () => (await countOutcomes(metrics))['returned'] === 4);
  isThere = true;
  await reach({ completed: 4 });
  await worker.stop(LONG);
  const { returned = 0, ...others } = await countOutcomes(metrics);
  assert.ok(returned >= 4);
  assert.deepEqual(others, { completed: 4 });
  await empty();
});

test('what a stop sends back is returned once, whether it was begun or waited for a slot', async () => {
  await storeMany(60);
  const metrics = createMetrics(new Registry());
  let isAhead = false;
  const watched = watchedDatabase(db, {
    after(text, { rows }) {
      if (text.includes('with recursive')) isAhead ||= rows.length > 4;
    },
  });
  const begun = { ended: 0, held: 0 };
  const worker = start(
    async (_, { signal }) => {
      // They end at once until more have been claimed than there are slots; the ones after that do not end.
      begun[isAhead ? 'held' : 'ended'] += 1;
      return isAhead ? untilGivenUp(signal) : completed;
    },
    { db: watched, metrics, pollMs: 60_000, maxWaitMs: 60_000, giveUpMs: 60_000 },
  );
  await until('all slots to be taken', () => begun.held === 4);
  assert.ok(((await statuses())['processing'] ?? 0) > 4, 'others wait for one');
  await worker.stop(NO_WAIT);
  const { ended } = begun;
  await reach({ completed: ended, pending: 60 - ended });
  const { claims } = await db
    .selectFrom('raw_data')
    .select((eb) => eb.fn.sum<number>('attempt').as('claims'))
    .executeTakeFirstOrThrow();
  const counted = { completed: ended, returned: claims - ended };
  await until('all to be counted', async () => {
    const { returned } = await countOutcomes(metrics);
    return returned === counted.returned;
  });
  assert.deepEqual(await countOutcomes(metrics), counted);
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
  assert.deepEqual(await countOutcomes(metrics), { completed: 1, returned: 1 });
  await empty();
});

/** The two statements of a return, by parts of their texts. */
const RETURN = ['from job as back', 'set waits = false'] as const;

for (const statement of RETURN) {
  test(`what goes back is returned, also where the answer to "${statement}" is lost`, async () => {
    await storeMany(3);
    const [begun, ...others] = await claimJobs(db, { worker: 'test', leaseMs: 60_000, count: 3 });
    assert.ok(begun);
    const metrics = createMetrics(new Registry());
    const lossy = lossyDatabase(db);
    const deps = { db: lossy.db, metrics, log };
    const { signal } = new AbortController();

    lossy.lose({ statement, when: 'after', times: 1 });
    const run = createJobRunner({ ...deps, process: async () => ({ status: 'postponed' }) });
    assert.equal(await run(begun, { signal }), 'postponed');
    assert.deepEqual(await countOutcomes(metrics), { returned: 1 });

    lossy.lose({ statement, when: 'after', times: 1 });
    await createGiveBack({ ...deps, worker: 'test' }, signal).give(others);
    assert.deepEqual(await countOutcomes(metrics), { returned: 3 });
    assert.ok(lossy.isOver());
    assert.deepEqual(await statuses(), { pending: 3 });
    await empty();
  });
}

if (!isExclusive) {
  test('what goes back is returned, also where the server is still at the statement that was given up', async () => {
    await storeMany(1);
    const [job] = await claimJobs(db, { worker: 'test', leaseMs: 60_000, count: 1 });
    assert.ok(job);
    const metrics = createMetrics(new Registry());
    const lossy = lossyDatabase(db);
    lossy.lose({ statement: RETURN[0], when: 'before', times: 1 });
    const run = createJobRunner({
      db: lossy.db,
      metrics,
      log,
      process: async () => ({ status: 'postponed' }),
    });
    // What the transaction does stands for the lost statement, which the server carries out late.
    const running = await db.transaction().execute(async (trx) => {
      await returnJobs(trx, [job]);
      const outcome = run(job, { signal: new AbortController().signal });
      await untilLockWait(db);
      return { outcome };
    });
    assert.equal(await running.outcome, 'postponed');
    assert.deepEqual(await countOutcomes(metrics), { returned: 1 });
    assert.ok(lossy.isOver());
    assert.deepEqual(await statuses(), { pending: 1 });
    await empty();
  });
}

test('a job whose claim was taken away is lost, and no failure', async () => {
  await storeMany(1);
  const metrics = createMetrics(new Registry());
  const worker = start((_, { signal }) => untilGivenUp(signal), { metrics, leaseMs: 6000 });
  await reach({ processing: 1 });
  await db.updateTable('raw_data').set({ status: 'failed', attempt: 7 }).execute();
  await until('it to be given up', async () => (await countOutcomes(metrics))['lost'] === 1);
  await worker.stop(LONG);
  assert.deepEqual(await countOutcomes(metrics), { lost: 1 });
  await empty();
});
