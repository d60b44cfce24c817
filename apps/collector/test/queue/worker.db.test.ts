import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ModelCallEvent } from '@oselya/model';
import { sql } from 'kysely';
import { Registry } from 'prom-client';
import { createMetrics } from '../../src/metrics.ts';
import { insertRaws } from '../../src/ingest/store.ts';
import { createJobRunner, type JobRunner } from '../../src/queue/job-runner.ts';
import type { JobOutcome, ProcessJob } from '../../src/queue/job-types.ts';
import { finishJobs, rescueJobs } from '../../src/queue/job-writes.ts';
import { claimJobs } from '../../src/queue/claim.ts';
import { until } from '@oselya/testing';
import { createLossyDatabase, watchDatabase } from '@oselya/testing/database';
import {
  createFakeBreaker,
  log,
  readRawRecord,
  store,
  createPayload,
} from '../support/pipeline.ts';
import {
  completedOutcome,
  countOutcomes,
  storePending,
  createHeldJobs,
  LONG,
  NO_WAIT,
  openQueue,
  stage,
} from './harness.ts';

const { db, empty, reach, start, statuses, storeMany } = await openQueue();
afterEach(empty);

/** Waits until a job is aborted. */
const untilAborted = (signal: AbortSignal) =>
  new Promise<JobOutcome>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });

test('A worker drains the queue with at most one job for each slot', async () => {
  await storeMany(30);
  let inProgress = 0;
  let most = 0;
  // The poll of a minute is too late, so the worker claims again at once.
  start(
    async () => {
      inProgress += 1;
      most = Math.max(most, inProgress);
      await sleep(2);
      inProgress -= 1;
      return completedOutcome;
    },
    { pollMs: 60_000 },
  );
  await reach({ completed: 30 });
  assert.ok(most > 1 && most <= 4, `${most} at once`);
});

test('A notification or the poll wakes an idle worker', async () => {
  let claims = 0;
  const watched = watchDatabase(db, {
    after(text) {
      if (text.includes('with recursive')) claims += 1;
    },
  });
  const notified = start(async () => completedOutcome, { db: watched, pollMs: 60_000 });
  await until('a claim to find nothing', () => claims > 0);
  await store(db, createPayload());
  notified.notify();
  await reach({ completed: 1 });
  await notified.stop(LONG);

  const polling = start(async () => completedOutcome);
  await store(db, createPayload());
  await reach({ completed: 2 });
  await polling.stop(LONG);
});

test('A notification during the check of a gate is not lost', async () => {
  const checks: ((isOpen: boolean) => void)[] = [];
  let isOver = false;
  const worker = start(async () => completedOutcome, {
    pollMs: 60_000,
    mayClaim: async () => !isOver && new Promise<boolean>((resolve) => checks.push(resolve)),
  });
  await until('a check', () => checks.length === 1);
  await storeMany(1);
  worker.notify();
  checks[0]?.(false);
  await until('another check at once', () => checks.length === 2);
  isOver = true;
  checks[1]?.(true);
  await reach({ completed: 1 });
  await worker.stop(LONG);
});

test('No job is claimed while a gate is closed, and a failed gate counts as a failed claim', async () => {
  await storeMany(2);
  const state = { isOpen: false, checks: 0 };
  start(async () => completedOutcome, {
    mayClaim: async () => {
      state.checks += 1;
      if (state.checks === 1) throw new Error('the folder is gone');
      return state.isOpen;
    },
  });
  await until('two more checks', () => state.checks >= 3);
  assert.deepEqual(await statuses(), { pending: 2 });
  state.isOpen = true;
  await reach({ completed: 2 });
});

test('An exception fails its job, and the worker continues', async () => {
  const [bad = 0] = await storeMany(1);
  await storeMany(1);
  start(async (job) => {
    if (job.rawId === bad) throw new Error('boom');
    return completedOutcome;
  });
  await reach({ completed: 1, failed: 1 });
  const { status, error } = await readRawRecord(db, bad);
  assert.deepEqual([status, error?.code], ['failed', 'internal_error']);
  assert.ok(!error?.message.includes('boom'), 'details are only in the log');
});

test('A new source gets the next free slot', async () => {
  const held = createHeldJobs();
  await storePending(db, 'slow', 20);
  start(held.process);
  await until('all slots to be taken', () => held.begun.length === 4);
  await storePending(db, 'new', 1);
  held.begun[0]?.end();
  await until('the next job', () => held.begun.length === 5);
  assert.equal(held.begun[4]?.sourceSlug, 'new');
  held.endAll();
  await reach({ completed: 21 });
});

test('The start of a worker releases payloads whose release a killed worker missed', async () => {
  for (let nth = 0; nth < 2; nth += 1) await store(db, createPayload({ external_id: 'same' }));
  const [job] = await claimJobs(db, { worker: 'killed', leaseMs: 60_000, count: 4 });
  assert.ok(job);
  await finishJobs(db, [{ job, result: completedOutcome }]);
  start(async () => completedOutcome, { pollMs: 60_000 });
  await reach({ completed: 2 });
});

test('No job is claimed while the breaker is open or probes, and returned jobs cost no attempt', async () => {
  await storeMany(9);
  const breaker = createFakeBreaker('open');
  const probe = Promise.withResolvers<JobOutcome>();
  const begun: number[] = [];
  start(
    (job) => {
      begun.push(job.rawId);
      if (begun.length > 1) return Promise.resolve(completedOutcome);
      breaker.probe(true);
      return probe.promise;
    },
    { breaker },
  );
  await sleep(100);
  assert.deepEqual(await statuses(), { pending: 9 });
  breaker.set('half-open');
  await reach({ pending: 8, processing: 1 });
  await sleep(100);
  assert.equal(begun.length, 1);
  breaker.set('open');
  probe.resolve({ status: 'postponed', retryMs: 60_000 });
  await reach({ pending: 9 });
  breaker.set('half-open');
  await until('another probe', () => begun.length > 1);
  assert.notEqual(begun[1], begun[0], 'the payload that failed is not the next probe');
  breaker.set('closed');
  await reach({ completed: 8, pending: 1 });
  const rows = await db.selectFrom('raw_data').select(['attempts', 'status']).execute();
  assert.ok(rows.every(({ attempts, status }) => attempts === (status === 'completed' ? 1 : 0)));
});

test('Prefetched jobs are returned when the model is unavailable, when they wait too long, and at a stop', async () => {
  for (const cause of ['breaker', 'time', 'stop'] as const) {
    await storeMany(60);
    const breaker = createFakeBreaker();
    const metrics = createMetrics(new Registry());
    const held = createHeldJobs();
    // Thirty jobs end at once, so that many are prefetched; later jobs do not end.
    let begun = 0;
    const busy = start(
      (job) => ((begun += 1) <= 30 ? Promise.resolve(completedOutcome) : held.process(job)),
      { breaker, metrics, pollMs: cause === 'time' ? 20 : 60_000 },
    );
    await until('all slots to be taken', () => held.begun.length === 4);
    if (cause === 'breaker') breaker.set('open');
    const stopping = cause === 'stop' ? busy.stop(LONG) : undefined;
    await reach({ completed: 30, processing: 4, pending: 26 });
    held.endAll();
    await (stopping ?? busy.stop(LONG));
    const rows = await db.selectFrom('raw_data').select(['attempts', 'status']).execute();
    assert.ok(rows.every(({ attempts, status }) => attempts === (status === 'completed' ? 1 : 0)));
    await empty();
  }
});

test('A job that loses the database is returned without an attempt and runs again', async () => {
  // The end is lost, its response is lost, or the return is lost too.
  const losses = [
    [{ statement: 'set completed_hash =', when: 'before', times: 1 }],
    [{ statement: 'set completed_hash =', when: 'after', times: 1 }],
    [
      { statement: 'set completed_hash =', when: 'before', times: 1 },
      { statement: 'from job as back', when: 'before', times: 1 },
    ],
  ] as const;
  for (const loss of losses) {
    const same = { external_id: 'same' };
    const ids = [await store(db, createPayload(same)), await store(db, createPayload(same))];
    const lossy = createLossyDatabase(db);
    for (const one of loss) lossy.lose(one);
    const worker = start(async () => completedOutcome, { db: lossy.db, maxAttempts: 1 });
    await reach({ completed: 2 });
    await worker.stop(LONG);
    assert.ok(lossy.isOver());
    for (const id of ids) {
      const { attempts, waits } = await readRawRecord(db, id);
      assert.deepEqual([attempts, waits], [1, false]);
    }
    await empty();
  }
});

test('A claim with a lost response is returned without an attempt', async () => {
  const id = await store(db, createPayload());
  const lossy = createLossyDatabase(db);
  lossy.lose({ statement: 'with recursive', when: 'after', times: 1 });
  const metrics = createMetrics(new Registry());
  const worker = start(async () => completedOutcome, { db: lossy.db, maxAttempts: 1, metrics });
  await reach({ completed: 1 });
  await worker.stop(LONG);
  const { attempt, attempts } = await readRawRecord(db, id);
  assert.deepEqual([attempt, attempts], [2, 1]);
  assert.deepEqual(await countOutcomes(metrics), { completed: 1, returned: 1 });
});

test('The first check after an outage treats no lease as expired', async () => {
  await storeMany(1);
  await sql`update raw_data set status = 'processing', attempt = 1, attempts = 1,
    lease_expires_at = to_timestamp(0)`.execute(db);
  const lossy = createLossyDatabase(db);
  lossy.lose({ statement: 'lease_expires_at < now()', when: 'before', times: 1 });
  let sweeps = 0;
  const watched = watchDatabase(lossy.db, {
    before(text) {
      if (text.includes('select distinct source_slug')) sweeps += 1;
    },
  });
  start(async () => completedOutcome, { db: watched, leaseMs: 300 });
  await until('a sweep after the outage', () => sweeps === 1);
  assert.deepEqual(await statuses(), { processing: 1 });
  await reach({ completed: 1 });
});

/** A request to the model. */
const call: ModelCallEvent = {
  operation: 'extract',
  outcome: 'ok',
  durationMs: 1,
  inputTokens: 7,
  outputTokens: 1,
};

test('A shutdown waits for jobs in progress', async () => {
  await storeMany(1);
  const held = createHeldJobs();
  const worker = start(held.process);
  await until('the job to start', () => held.begun.length === 1);
  const stopping = worker.stop(LONG);
  await storeMany(1);
  await sleep(50);
  held.endAll();
  await stopping;
  assert.deepEqual(await statuses(), { completed: 1, pending: 1 }, 'nothing more was claimed');
});

test('A stop returns slow jobs with their cost and stages and without an attempt', async () => {
  await storeMany(10);
  const worker = start(
    (_, { signal, stages, cost }) => {
      stages?.push(stage);
      cost?.observe(call);
      return untilAborted(signal);
    },
    { slots: 10 },
  );
  await reach({ processing: 10 });
  await worker.stop(NO_WAIT);
  await reach({ pending: 10 });
  for (const row of await db.selectFrom('raw_data').selectAll().execute()) {
    assert.deepEqual([row.attempts, row.claimed_by], [0, null]);
    assert.deepEqual([row.model_usage?.input_tokens, row.stages], [7, [stage]]);
  }
});

/** Parts of the statements that a stopping worker waits for. */
const awaited = {
  'a claim': 'with recursive',
  'a renewal': 'attempt_usage = job.usage',
  'a return': 'from job as back',
};

for (const [name, statement] of Object.entries(awaited)) {
  test(`A stop does not wait for ${name} that the database does not answer`, async () => {
    const { promise: answer, resolve: release } = Promise.withResolvers<void>();
    let asked = 0;
    let answered = 0;
    const silent = watchDatabase(db, {
      async after(text) {
        if (!text.includes(statement)) return;
        asked += 1;
        await answer;
        answered += 1;
      },
    });
    await storeMany(1);
    const worker = start((_, { signal }) => untilAborted(signal), {
      db: silent,
      slots: 1,
      leaseMs: 300,
    });
    if (name === 'a return') await reach({ processing: 1 });
    else await until('the statement', () => asked > 0);
    await worker.stop({ timeoutMs: 200 });
    assert.ok(asked > 0);
    assert.equal(answered, 0, 'the worker has stopped');
    release();
    await until('the answers', () => answered === asked);
    await reach({ pending: 1 });
  });
}

test('A job whose claim is lost is not failed', async () => {
  await storeMany(1);
  const metrics = createMetrics(new Registry());
  start((_, { signal }) => untilAborted(signal), { metrics, leaseMs: 6000 });
  await reach({ processing: 1 });
  await db.updateTable('raw_data').set({ status: 'failed', attempt: 7 }).execute();
  await until('the loss', async () => (await countOutcomes(metrics))['lost'] === 1);
  assert.deepEqual(await countOutcomes(metrics), { lost: 1 });
});

const runners: JobRunner<string>[] = [];

/** Creates a runner of inline jobs, which is closed after the test. */
function open(process: ProcessJob<string>, leaseMs = 60_000): JobRunner<string> {
  const metrics = createMetrics(new Registry());
  const runner = createJobRunner({ db, process, metrics, log, leaseMs });
  runners.push(runner);
  return runner;
}
afterEach(async () => {
  await Promise.all(runners.splice(0).map((runner) => runner.close(NO_WAIT)));
});

/** Stores and claims a payload as `POST /ingest/with-images` does. */
async function storeInline({ hasUploads = true, leaseMs = 60_000 } = {}) {
  const { source_slug: sourceSlug, external_id: externalId } = createPayload();
  const raw = { source_slug: sourceSlug, external_id: externalId, payload: '{}' };
  const claim = { worker: 'test', leaseMs, hasUploads };
  const stored = await insertRaws(db, [{ ...raw, content_hash: externalId, claim }]);
  const rawId = stored.get(0)?.id ?? 0;
  return { rawId, attempt: 1, sourceSlug, externalId, contentHash: externalId };
}

const endless: ProcessJob<string> = (_, { signal }) => untilAborted(signal);

test('An inline job runs with its input, and its lease is renewed', async () => {
  const inputs: unknown[] = [];
  const ended = Promise.withResolvers<JobOutcome>();
  const runner = open((_, { input, stages }) => {
    inputs.push(input);
    stages?.push(stage);
    return ended.promise;
  }, 300);
  const job = await storeInline({ leaseMs: 300 });
  const running = runner.run(job, { input: 'images' });
  await until('a renewal', async () => (await readRawRecord(db, job.rawId)).stages.length > 0);
  ended.resolve(completedOutcome);
  assert.equal(await running, 'completed');
  assert.deepEqual(inputs, ['images']);
  const { status, inline } = await readRawRecord(db, job.rawId);
  assert.deepEqual([status, inline], ['completed', false], 'its images are stored');
});

test('An expired lease fails an inline job with lost images and returns other jobs', async () => {
  const [lost, other] = [await storeInline(), await storeInline({ hasUploads: false })];
  await sql`update raw_data set lease_expires_at = now() - interval '1 s'`.execute(db);
  await rescueJobs(db, 3);
  const { status, error } = await readRawRecord(db, lost.rawId);
  assert.deepEqual([status, error?.code], ['failed', 'lease_lost']);
  assert.match(error?.message ?? '', /Send it again/);
  const returned = await readRawRecord(db, other.rawId);
  assert.deepEqual([returned.status, returned.error, returned.inline], ['pending', null, false]);
});

test('Closing a runner waits for its jobs, and aborts slow and new jobs', async () => {
  const held = createHeldJobs();
  const patient = open(held.process);
  const done = patient.run(await storeInline());
  const closing = patient.close(LONG);
  const late = await storeInline();
  assert.equal(await patient.run(late), 'returned');
  held.endAll();
  await closing;
  assert.equal(await done, 'completed');

  const [slow, other] = [await storeInline(), await storeInline({ hasUploads: false })];
  const hasty = open(endless);
  const outcomes = Promise.all([slow, other].map((job) => hasty.run(job)));
  await hasty.close(NO_WAIT);
  assert.deepEqual(await outcomes, ['returned', 'returned']);
  for (const { rawId } of [late, slow]) {
    assert.equal((await readRawRecord(db, rawId)).error?.code, 'interrupted');
  }
  const { status, attempts } = await readRawRecord(db, other.rawId);
  assert.deepEqual([status, attempts], ['pending', 0]);
});

test('The caller can abort an inline job, and a postponed job fails', async () => {
  const [aborted, postponed] = [await storeInline(), await storeInline()];
  const abort = new AbortController();
  const running = open(endless).run(aborted, { signal: abort.signal });
  abort.abort(new Error('Ctrl-C'));
  assert.equal(await running, 'returned');
  assert.equal(await open(async () => ({ status: 'postponed' })).run(postponed), 'postponed');
  for (const { rawId } of [aborted, postponed]) {
    assert.equal((await readRawRecord(db, rawId)).error?.code, 'interrupted');
  }
});
