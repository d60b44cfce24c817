import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ModelCallEvent } from '@oselya/model';
import { sql } from 'kysely';
import { Registry } from 'prom-client';
import { createMetrics } from '../../src/metrics.ts';
import { insertRawRecords } from '../../src/ingest/store.ts';
import { createJobRunner, type JobRunner } from '../../src/queue/job-runner.ts';
import type { JobHandler, JobOutcome } from '../../src/queue/job-types.ts';
import { endJobs, rescueJobs } from '../../src/queue/job-writes.ts';
import { claimJobs } from '../../src/queue/claim.ts';
import { until } from '@oselya/testing';
import { createLossyDatabase, createOutageError, watchDatabase } from '@oselya/testing/database';
import {
  countByStatus,
  createFakeBreaker,
  log,
  readRawRecord,
  store,
  createPayload,
} from '../support/pipeline.ts';
import {
  completedEnd,
  completedOutcome,
  countOutcomes,
  storePending,
  createHeldJobs,
  LONG_TIMEOUT,
  NO_WAIT,
  openQueue,
  stage,
} from './harness.ts';

const { db, deletePayloads, waitForStatuses, start, storePayloads } = await openQueue();
afterEach(deletePayloads);

/** Waits until the job is aborted, and rejects with the reason. */
const untilAborted = (signal: AbortSignal) =>
  new Promise<JobOutcome>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });

test('A worker drains the queue with at most one job for each slot', async () => {
  await storePayloads(30);
  let inProgress = 0;
  let maxInProgress = 0;
  // With a poll interval of a minute, the queue drains in time only if free slots claim immediately.
  start(
    async () => {
      inProgress += 1;
      maxInProgress = Math.max(maxInProgress, inProgress);
      await sleep(2);
      inProgress -= 1;
      return completedOutcome;
    },
    { pollMs: 60_000 },
  );
  await waitForStatuses({ completed: 30 });
  assert.ok(maxInProgress > 1 && maxInProgress <= 4, `${maxInProgress} jobs at once`);
});

test('A notification or the poll wakes an idle worker', async () => {
  let claimCount = 0;
  const watchedDb = watchDatabase(db, {
    after(text) {
      if (text.includes('with recursive')) claimCount += 1;
    },
  });
  const notifiedWorker = start(async () => completedOutcome, { db: watchedDb, pollMs: 60_000 });
  await until('a claim to find nothing', () => claimCount > 0);
  await store(db, createPayload());
  notifiedWorker.notify();
  await waitForStatuses({ completed: 1 });
  await notifiedWorker.stop(LONG_TIMEOUT);

  const pollingWorker = start(async () => completedOutcome);
  await store(db, createPayload());
  await waitForStatuses({ completed: 2 });
  await pollingWorker.stop(LONG_TIMEOUT);
});

test('A notification during the check of a gate is not lost', async () => {
  const checks: ((isOpen: boolean) => void)[] = [];
  let isOver = false;
  const worker = start(async () => completedOutcome, {
    pollMs: 60_000,
    canClaim: async () => !isOver && new Promise<boolean>((resolve) => checks.push(resolve)),
  });
  await until('a check', () => checks.length === 1);
  await storePayloads(1);
  worker.notify();
  checks[0]?.(false);
  await until('another check immediately', () => checks.length === 2);
  isOver = true;
  checks[1]?.(true);
  await waitForStatuses({ completed: 1 });
  await worker.stop(LONG_TIMEOUT);
});

test('No job is claimed while a gate is closed, and a failed gate counts as a failed claim', async () => {
  await storePayloads(2);
  const state = { isOpen: false, checkCount: 0 };
  start(async () => completedOutcome, {
    canClaim: async () => {
      state.checkCount += 1;
      if (state.checkCount === 1) throw new Error('the folder is gone');
      return state.isOpen;
    },
  });
  await until('two more checks', () => state.checkCount >= 3);
  assert.deepEqual(await countByStatus(db), { pending: 2, completed: 0, failed: 0 });
  state.isOpen = true;
  await waitForStatuses({ completed: 2 });
});

test('An exception fails its job, and the worker continues', async () => {
  const [failingId = 0] = await storePayloads(1);
  await storePayloads(1);
  start(async (job) => {
    if (job.rawId === failingId) throw new Error('boom');
    return completedOutcome;
  });
  await waitForStatuses({ completed: 1, failed: 1 });
  const { status, error } = await readRawRecord(db, failingId);
  assert.deepEqual([status, error?.code], ['failed', 'internal_error']);
  assert.ok(!error?.message.includes('boom'), 'details are only in the log');
});

test('A new source gets the next free slot', async () => {
  const heldJobs = createHeldJobs();
  await storePending(db, 'slow', 20);
  start(heldJobs.processJob);
  await until('all slots to be taken', () => heldJobs.startedJobs.length === 4);
  await storePending(db, 'new', 1);
  heldJobs.startedJobs[0]?.end();
  await until('the next job', () => heldJobs.startedJobs.length === 5);
  assert.equal(heldJobs.startedJobs[4]?.sourceSlug, 'new');
  heldJobs.endAll();
  await waitForStatuses({ completed: 21 });
});

test('Worker startup unblocks payloads that a killed worker left blocked', async () => {
  for (let index = 0; index < 2; index += 1)
    await store(db, createPayload({ external_id: 'same' }));
  const [job] = await claimJobs(db, { worker: 'killed', leaseMs: 60_000, count: 4 });
  assert.ok(job);
  await endJobs(db, [{ ...job, ...completedEnd }]);
  start(async () => completedOutcome);
  await waitForStatuses({ completed: 2 });
});

test('No job is claimed while the breaker is open or probes, and returned jobs cost no attempt', async () => {
  await storePayloads(9);
  const breaker = createFakeBreaker('open');
  const probe = Promise.withResolvers<JobOutcome>();
  const startedJobs: number[] = [];
  start(
    (job) => {
      startedJobs.push(job.rawId);
      if (startedJobs.length > 1) return Promise.resolve(completedOutcome);
      breaker.probe(true);
      return probe.promise;
    },
    { breaker },
  );
  await sleep(100);
  assert.deepEqual(await countByStatus(db), { pending: 9, completed: 0, failed: 0 });
  breaker.set('half-open');
  await waitForStatuses({ pending: 8, processing: 1 });
  await sleep(100);
  assert.equal(startedJobs.length, 1);
  breaker.set('open');
  probe.resolve({ status: 'returned', retryDelayMs: 60_000 });
  await waitForStatuses({ pending: 9 });
  breaker.set('half-open');
  await until('another probe', () => startedJobs.length > 1);
  assert.notEqual(startedJobs[1], startedJobs[0], 'the payload that failed is not the next probe');
  breaker.set('closed');
  await waitForStatuses({ completed: 8, pending: 1 });
  const rows = await db.selectFrom('raw_data').select(['attempts', 'status']).execute();
  assert.ok(rows.every(({ attempts, status }) => attempts === (status === 'completed' ? 1 : 0)));
});

test('Prefetched jobs are returned when the model is unavailable, when they wait too long, and at a stop', async () => {
  for (const cause of ['breaker', 'time', 'stop'] as const) {
    await storePayloads(60);
    const breaker = createFakeBreaker();
    const metrics = createMetrics(new Registry());
    const heldJobs = createHeldJobs();
    // Thirty jobs end immediately, which lets the worker prefetch many. Later jobs do not end.
    let startedCount = 0;
    const busyWorker = start(
      (job) =>
        (startedCount += 1) <= 30 ? Promise.resolve(completedOutcome) : heldJobs.processJob(job),
      { breaker, metrics, pollMs: cause === 'time' ? 20 : 60_000 },
    );
    await until('all slots to be taken', () => heldJobs.startedJobs.length === 4);
    if (cause === 'breaker') breaker.set('open');
    const stopPromise = cause === 'stop' ? busyWorker.stop(LONG_TIMEOUT) : undefined;
    await waitForStatuses({ completed: 30, processing: 4, pending: 26 });
    heldJobs.endAll();
    await (stopPromise ?? busyWorker.stop(LONG_TIMEOUT));
    const rows = await db.selectFrom('raw_data').select(['attempts', 'status']).execute();
    assert.ok(rows.every(({ attempts, status }) => attempts === (status === 'completed' ? 1 : 0)));
    await deletePayloads();
  }
});

test('A job that loses the database ends or runs again, without another attempt', async () => {
  // Losses of the worker: the statement that ends the job, only its response, or the statement and its retry.
  const lossesByRun = [
    [{ statement: 'set completed_hash =', when: 'before', times: 1 }],
    [{ statement: 'set completed_hash =', when: 'after', times: 1 }],
    [{ statement: 'set completed_hash =', when: 'before', times: 2 }],
  ] as const;
  for (const losses of lossesByRun) {
    const sameListing = { external_id: 'same' };
    const ids = [
      await store(db, createPayload(sameListing)),
      await store(db, createPayload(sameListing)),
    ];
    const lossyDatabase = createLossyDatabase(db);
    for (const statementLoss of losses) lossyDatabase.lose(statementLoss);
    const worker = start(async () => completedOutcome, { db: lossyDatabase.db, maxAttempts: 1 });
    await waitForStatuses({ completed: 2 });
    await worker.stop(LONG_TIMEOUT);
    assert.ok(lossyDatabase.isOver());
    for (const id of ids) {
      const { attempts, waits } = await readRawRecord(db, id);
      assert.deepEqual([attempts, waits], [1, false]);
    }
    await deletePayloads();
  }
});

test('Orphaned jobs are returned while the breaker is open', async () => {
  const [id = 0] = await storePayloads(1);
  const breaker = createFakeBreaker();
  const lossyDb = watchDatabase(db, {
    after(text) {
      if (!text.includes('with recursive')) return;
      breaker.set('open');
      throw createOutageError();
    },
  });
  start(async () => completedOutcome, { db: lossyDb, breaker });
  const isReturned = async () => {
    const { status, attempt, attempts } = await readRawRecord(db, id);
    return status === 'pending' && attempt === 1 && attempts === 0;
  };
  await until('the job to be returned', isReturned);
});

test('A claim with a lost response is returned without an attempt', async () => {
  const id = await store(db, createPayload());
  const lossyDatabase = createLossyDatabase(db);
  lossyDatabase.lose({ statement: 'with recursive', when: 'after', times: 1 });
  const metrics = createMetrics(new Registry());
  const worker = start(async () => completedOutcome, {
    db: lossyDatabase.db,
    maxAttempts: 1,
    metrics,
  });
  await waitForStatuses({ completed: 1 });
  await worker.stop(LONG_TIMEOUT);
  const { attempt, attempts } = await readRawRecord(db, id);
  assert.deepEqual([attempt, attempts], [2, 1]);
  assert.deepEqual(await countOutcomes(metrics), { completed: 1, returned: 1 });
});

test('The first check of a worker, and the first one after an outage, treat no lease as expired', async () => {
  const [id = 0] = await storePayloads(1);
  await sql`update raw_data set status = 'processing', attempt = 1, attempts = 1,
    lease_expires_at = to_timestamp(0)`.execute(db);
  const lossyDatabase = createLossyDatabase(db);
  lossyDatabase.lose({ statement: 'lease_expires_at < now()', when: 'before', times: 1 });
  const expiryTimes: (number | undefined)[] = [];
  const watchedDb = watchDatabase(lossyDatabase.db, {
    async after(text) {
      if (!text.includes('select distinct source_slug')) return;
      expiryTimes.push((await readRawRecord(db, id)).lease_expires_at?.getTime());
    },
  });
  start(async () => completedOutcome, { db: watchedDb, leaseMs: 300 });
  await waitForStatuses({ completed: 1 });
  assert.ok(lossyDatabase.isOver());
  assert.deepEqual(expiryTimes.slice(0, 2), [0, 0], 'the outage interrupted the second check');
});

test('A slow check does not delay the renewal of leases', async () => {
  const [id = 0] = await storePayloads(1);
  const { promise: answer, resolve: release } = Promise.withResolvers<void>();
  const slowDb = watchDatabase(db, {
    after: (text) => (text.includes('select distinct source_slug') ? answer : undefined),
  });
  start(
    (_, { signal, stages }) => {
      stages.push(stage);
      return untilAborted(signal);
    },
    { db: slowDb, leaseMs: 300 },
  );
  await until('a renewal', async () => (await readRawRecord(db, id)).stages.length > 0);
  release();
});

test('A worker that was frozen longer than its lease keeps its jobs', async () => {
  await storePayloads(4);
  const heldJobs = createHeldJobs();
  let sweepWithJobsCount = 0;
  const watchedDb = watchDatabase(db, {
    async after(text) {
      if (!text.includes('select distinct source_slug') || heldJobs.startedJobs.length < 4) return;
      sweepWithJobsCount += 1;
      await sql`update raw_data set lease_expires_at = to_timestamp(0)`.execute(db);
    },
  });
  const metrics = createMetrics(new Registry());
  const worker = start(heldJobs.processJob, { db: watchedDb, metrics, leaseMs: 300 });
  await until('sweeps after expired leases', () => sweepWithJobsCount > 2);
  heldJobs.endAll();
  await worker.stop(LONG_TIMEOUT);
  assert.deepEqual(await countOutcomes(metrics), { completed: 4 });
});

test('Jobs of lost workers are rescued although blocked payloads cannot be unblocked', async () => {
  let failureCount = 0;
  const failingDb = watchDatabase(db, {
    before(text) {
      if (!text.includes('select distinct source_slug')) return;
      failureCount += 1;
      throw new Error('a corrupt index');
    },
  });
  start(async () => completedOutcome, { db: failingDb, leaseMs: 300 });
  await until('a failed sweep', () => failureCount > 0);
  await storeInline({ hasUploads: false, leaseMs: 0 });
  await waitForStatuses({ completed: 1 });
});

const modelCall: ModelCallEvent = {
  operation: 'extract',
  outcome: 'ok',
  durationMs: 1,
  inputTokens: 7,
  outputTokens: 1,
};

test('A stop returns slow jobs with their cost and stages and without an attempt', async () => {
  await storePayloads(10);
  let startedCount = 0;
  const worker = start(
    (_, { signal, stages, usage }) => {
      stages.push(stage);
      usage.observe(modelCall);
      startedCount += 1;
      return untilAborted(signal);
    },
    { slots: 10 },
  );
  await until('all jobs', () => startedCount === 10);
  await worker.stop(NO_WAIT);
  await waitForStatuses({ pending: 10 });
  for (const row of await db.selectFrom('raw_data').selectAll().execute()) {
    assert.deepEqual([row.attempts, row.claimed_by], [0, null]);
    assert.deepEqual([row.model_usage?.input_tokens, row.stages], [7, [stage]]);
  }
});

/** Substrings that identify the statements in progress when the worker stops. */
const pendingStatements = {
  'a claim': 'with recursive',
  'a renewal': 'attempt_usage = held.model_usage',
  'a return': 'set completed_hash =',
};

for (const [name, statement] of Object.entries(pendingStatements)) {
  test(`A stop does not wait for ${name} that the database does not respond to`, async () => {
    const { promise: answer, resolve: release } = Promise.withResolvers<void>();
    let requestCount = 0;
    let responseCount = 0;
    const silentDb = watchDatabase(db, {
      async after(text) {
        if (!text.includes(statement)) return;
        requestCount += 1;
        await answer;
        responseCount += 1;
      },
    });
    await storePayloads(1);
    const worker = start((_, { signal }) => untilAborted(signal), {
      db: silentDb,
      slots: 1,
      leaseMs: 300,
    });
    if (name === 'a return') await waitForStatuses({ processing: 1 });
    else await until('the statement', () => requestCount > 0);
    await worker.stop({ timeoutMs: 200 });
    assert.ok(requestCount > 0);
    assert.equal(responseCount, 0, 'the worker has stopped');
    release();
    await until('the responses', () => responseCount === requestCount);
    await waitForStatuses({ pending: 1 });
  });
}

test('A job whose claim is lost is not failed', async () => {
  await storePayloads(1);
  const metrics = createMetrics(new Registry());
  start((_, { signal }) => untilAborted(signal), { metrics, leaseMs: 6000 });
  await waitForStatuses({ processing: 1 });
  await db.updateTable('raw_data').set({ status: 'failed', attempt: 7 }).execute();
  await until('the loss', async () => (await countOutcomes(metrics))['lost'] === 1);
  assert.deepEqual(await countOutcomes(metrics), { lost: 1 });
});

const runners: JobRunner[] = [];

/** Creates a runner of inline jobs, which is closed after the test. */
function openRunner(leaseMs = 60_000, metrics = createMetrics(new Registry())): JobRunner {
  const runner = createJobRunner({ db, metrics, log, leaseMs });
  runners.push(runner);
  return runner;
}
afterEach(async () => {
  await Promise.all(runners.splice(0).map((runner) => runner.close(NO_WAIT)));
});

/** Stores and claims a payload as `POST /ingest/with-images` does. */
async function storeInline({ hasUploads = true, leaseMs = 60_000 } = {}) {
  const { source_slug: sourceSlug, external_id: externalId } = createPayload();
  const rawRecord = { source_slug: sourceSlug, external_id: externalId, payload: '{}' };
  const claim = { worker: 'test', leaseMs, hasUploads };
  const storedRecords = await insertRawRecords(db, [
    { ...rawRecord, content_hash: externalId, claim },
  ]);
  const rawId = storedRecords.get(0)?.id ?? 0;
  return { rawId, attempt: 1, sourceSlug, externalId, contentHash: externalId };
}

const handleEndlessly: JobHandler = ({ signal }) => untilAborted(signal);

test('The lease of an inline job is renewed', async () => {
  const endedJob = Promise.withResolvers<JobOutcome>();
  const job = await storeInline({ leaseMs: 300 });
  const jobRun = openRunner(300).run(job, ({ stages }) => {
    stages.push(stage);
    return endedJob.promise;
  });
  await until('a renewal', async () => (await readRawRecord(db, job.rawId)).stages.length > 0);
  endedJob.resolve(completedOutcome);
  assert.equal(await jobRun, 'completed');
  const { status, inline } = await readRawRecord(db, job.rawId);
  assert.deepEqual([status, inline], ['completed', false], 'its images are stored');
});

test('An expired lease fails an inline job with lost images and returns other jobs', async () => {
  const [lostJob, otherJob] = [await storeInline(), await storeInline({ hasUploads: false })];
  await sql`update raw_data set lease_expires_at = now() - interval '1 s'`.execute(db);
  await rescueJobs({ db, log }, { maxAttempts: 3 });
  const { status, error } = await readRawRecord(db, lostJob.rawId);
  assert.deepEqual([status, error?.code], ['failed', 'lease_lost']);
  assert.match(error?.message ?? '', /[Ss]end the payload again/);
  const returnedRecord = await readRawRecord(db, otherJob.rawId);
  assert.deepEqual(
    [returnedRecord.status, returnedRecord.error, returnedRecord.inline],
    ['pending', null, false],
  );
});

test('Closing a runner waits for its jobs, and aborts slow and new jobs', async () => {
  const heldJobs = createHeldJobs();
  const patientRunner = openRunner();
  const patientJob = await storeInline();
  const completion = patientRunner.run(patientJob, () => heldJobs.processJob(patientJob));
  const closePromise = patientRunner.close(LONG_TIMEOUT);
  const lateJob = await storeInline();
  assert.equal(await patientRunner.run(lateJob, handleEndlessly), 'failed');
  heldJobs.endAll();
  await closePromise;
  assert.equal(await completion, 'completed');

  const [slowJob, otherJob] = [await storeInline(), await storeInline({ hasUploads: false })];
  const hastyRunner = openRunner();
  const outcomesPromise = Promise.all(
    [slowJob, otherJob].map((job) => hastyRunner.run(job, handleEndlessly)),
  );
  await hastyRunner.close(NO_WAIT);
  assert.deepEqual(await outcomesPromise, ['failed', 'returned']);
  for (const { rawId } of [lateJob, slowJob]) {
    assert.equal((await readRawRecord(db, rawId)).error?.code, 'interrupted');
  }
  const { status, attempts } = await readRawRecord(db, otherJob.rawId);
  assert.deepEqual([status, attempts], ['pending', 0]);
});

test('A returned inline job with uploads fails, and counts as failed', async () => {
  const job = await storeInline();
  const metrics = createMetrics(new Registry());
  await openRunner(60_000, metrics).run(job, async () => ({ status: 'returned' }));
  assert.deepEqual(await countOutcomes(metrics), { failed: 1 });
  assert.equal((await readRawRecord(db, job.rawId)).error?.code, 'interrupted');
});
