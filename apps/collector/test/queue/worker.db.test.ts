import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ModelCallEvent } from '@oselya/model';
import { Registry } from 'prom-client';
import type { StageRecord } from '../../src/tables.ts';
import { createMetrics } from '../../src/metrics.ts';
import type { JobOutcome } from '../../src/queue/job-types.ts';
import { finishJobs } from '../../src/queue/job-writes.ts';
import { claimJobs } from '../../src/queue/claim.ts';
import { until } from '@oselya/testing';
import { createLossyDatabase, watchDatabase } from '@oselya/testing/database';
import { fakeBreaker, rawRecord, store, payloadOf } from '../support/pipeline.ts';
import {
  completed,
  countOutcomes,
  fill,
  heldJobs,
  type Line,
  logTo,
  LONG,
  NO_WAIT,
  openQueue,
} from './harness.ts';

const { db, empty, reach, start, statuses, storeMany } = await openQueue();
afterEach(empty);

const CLAIM_FAILED = 'a job could not be claimed';

/** A job that ends when it is aborted. */
const untilAborted = (signal: AbortSignal) =>
  new Promise<JobOutcome>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });

test('A worker drains the queue with at most one job for each slot', async () => {
  await storeMany(30);
  let inProgress = 0;
  let most = 0;
  // With a poll of a minute, only immediate claims drain the queue in time.
  const worker = start(
    async () => {
      inProgress += 1;
      most = Math.max(most, inProgress);
      await sleep(2);
      inProgress -= 1;
      return completed;
    },
    { pollMs: 60_000 },
  );
  await reach({ completed: 30 });
  await worker.stop(LONG);
  assert.ok(most > 1 && most <= 4, `${most} at once`);
});

test('A notification or the poll wakes an idle worker', async () => {
  let claims = 0;
  const watched = watchDatabase(db, {
    after(text) {
      if (text.includes('with recursive')) claims += 1;
    },
  });
  const notified = start(async () => completed, { db: watched, pollMs: 60_000 });
  await until('a claim to find nothing', () => claims > 0);
  await store(db, payloadOf());
  notified.notify();
  await reach({ completed: 1 });
  await notified.stop(LONG);

  const polling = start(async () => completed);
  await store(db, payloadOf());
  await reach({ completed: 2 });
  await polling.stop(LONG);
});

test('A notification is not lost while all slots are taken or a gate is checked', async () => {
  const held = Promise.withResolvers<void>();
  let begun = 0;
  const asked: ((isOpen: boolean) => void)[] = [];
  const worker = start(
    async () => {
      begun += 1;
      if (begun === 1) await held.promise;
      return completed;
    },
    {
      slots: 1,
      // The poll would come too late for the test.
      pollMs: 60_000,
      mayClaim: () => new Promise<boolean>((resolve) => asked.push(resolve)),
    },
  );
  await store(db, payloadOf());
  await until('the gate to be asked', () => asked.length === 1);
  asked[0]?.(true);
  await until('the first job', () => begun === 1);
  await store(db, payloadOf());
  worker.notify();
  held.resolve();
  await until('the gate to be asked for the second job', () => asked.length === 2);
  asked[1]?.(true);
  await reach({ completed: 2 });

  await until('the gate to be asked once more', () => asked.length === 3);
  await store(db, payloadOf());
  worker.notify();
  asked[2]?.(false);
  await until('the gate to be asked again at once', () => asked.length === 4);
  asked[3]?.(true);
  await reach({ completed: 3 });
  await until('the last question', () => asked.length === 5);
  asked[4]?.(false);
  await worker.stop(LONG);
});

test('No job is claimed while a gate is closed, and a failed gate counts as a failed claim', async () => {
  await storeMany(2);
  const state = { may: false, looks: 0 };
  const lines: Line[] = [];
  const worker = start(async () => completed, {
    log: logTo(lines),
    mayClaim: async () => {
      state.looks += 1;
      if (state.looks === 1) throw new Error('the folder is gone');
      return state.may;
    },
  });
  await until('the failure', () => lines.some(({ msg }) => msg === CLAIM_FAILED));
  await until('two looks more', () => state.looks >= 3);
  assert.deepEqual(await statuses(), { pending: 2 });
  state.may = true;
  await reach({ completed: 2 });
  await worker.stop(LONG);
});

test('An exception fails its job, and the worker continues', async () => {
  const [bad, good] = [await store(db, payloadOf()), await store(db, payloadOf())];
  const worker = start(async (job) => {
    if (job.rawId === bad) throw new Error('boom');
    return completed;
  });
  await reach({ completed: 1, failed: 1 });
  await worker.stop(LONG);
  const row = await rawRecord(db, bad);
  assert.equal(row.status, 'failed');
  assert.equal(row.error?.code, 'internal_error');
  assert.ok(!row.error?.message.includes('boom'), 'the inside stays in the log');
  assert.equal((await rawRecord(db, good)).status, 'completed');
});

test('A new source gets the next free slot', async () => {
  const held = heldJobs();
  await fill(db, 'slow', 20);
  const worker = start(held.process);
  await until('all slots to be taken', () => held.begun.length === 4);
  await fill(db, 'new', 1);
  held.begun[0]?.end();
  await until('the next job', () => held.begun.length === 5);
  assert.equal(held.begun[4]?.sourceSlug, 'new');
  held.endAll();
  await reach({ completed: 21 });
  await worker.stop(LONG);
});

test('The start of a worker releases payloads whose release a killed worker missed', async () => {
  const same = { external_id: 'same' };
  await store(db, payloadOf(same));
  const second = await store(db, payloadOf(same));
  const jobs = await claimJobs(db, { worker: 'killed', leaseMs: 60_000, count: 4 });
  assert.equal(jobs.length, 1);
  await finishJobs(
    db,
    jobs.map((job) => ({ job, result: completed })),
  );
  assert.equal((await rawRecord(db, second)).waits, true);
  const worker = start(async () => completed, { pollMs: 60_000 });
  await reach({ completed: 2 });
  await worker.stop(LONG);
});

test('No job is claimed while the breaker is open, and closing it wakes the worker', async () => {
  await storeMany(3);
  const breaker = fakeBreaker('open');
  const worker = start(async () => completed, { breaker });
  await sleep(100);
  assert.deepEqual(await statuses(), { pending: 3 });
  breaker.set('closed');
  await reach({ completed: 3 });
  await worker.stop(LONG);
});

test('No job is claimed during a probe, and returned jobs cost no attempt', async () => {
  await storeMany(9);
  const breaker = fakeBreaker('half-open');
  const probe = Promise.withResolvers<JobOutcome>();
  const begun: number[] = [];
  const worker = start(
    (job) => {
      begun.push(job.rawId);
      if (begun.length > 1) return Promise.resolve(completed);
      breaker.probe(true);
      return probe.promise;
    },
    { breaker },
  );
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
  await worker.stop(LONG);
  const rows = await db.selectFrom('raw_data').select(['attempts', 'status']).execute();
  assert.ok(rows.every(({ attempts, status }) => attempts === (status === 'completed' ? 1 : 0)));
});

test('Prefetched jobs are returned when the model is unavailable, when they wait too long, and at a stop', async () => {
  for (const cause of ['breaker', 'time', 'stop'] as const) {
    await storeMany(60);
    const breaker = fakeBreaker();
    const metrics = createMetrics(new Registry());
    const held = heldJobs();
    // Thirty jobs end at once, so that many are prefetched; later jobs do not end.
    let begun = 0;
    const busy = start(
      (job) => ((begun += 1) <= 30 ? Promise.resolve(completed) : held.process(job)),
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

/** Long enough that a busy machine renews it in time. */
const LEASE_MS = 1500;

test('A heartbeat renews the lease until the job ends', async () => {
  const id = await store(db, payloadOf());
  const { promise, resolve } = Promise.withResolvers<JobOutcome>();
  const worker = start(() => promise, { leaseMs: LEASE_MS });
  await reach({ processing: 1 });
  const rival = start(async () => completed, { leaseMs: LEASE_MS });
  const first = (await rawRecord(db, id)).lease_expires_at;
  await until('three renewals', async () => {
    const { lease_expires_at: lease } = await rawRecord(db, id);
    return lease !== null && first !== null && lease.getTime() > first.getTime() + LEASE_MS;
  });
  resolve(completed);
  await reach({ completed: 1 });
  await Promise.all([worker.stop(LONG), rival.stop(LONG)]);
  assert.equal((await rawRecord(db, id)).attempts, 1);
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
    const ids = [await store(db, payloadOf(same)), await store(db, payloadOf(same))];
    const lossy = createLossyDatabase(db);
    for (const one of loss) lossy.lose(one);
    const worker = start(async () => completed, { db: lossy.db, maxAttempts: 1 });
    await reach({ completed: 2 });
    await worker.stop(LONG);
    assert.ok(lossy.isOver());
    for (const id of ids) {
      const { attempts, waits } = await rawRecord(db, id);
      assert.deepEqual([attempts, waits], [1, false]);
    }
    await empty();
  }
});

test('A claim with a lost response is returned without an attempt', async () => {
  const id = await store(db, payloadOf());
  const lossy = createLossyDatabase(db);
  lossy.lose({ statement: 'with recursive', when: 'after', times: 1 });
  const metrics = createMetrics(new Registry());
  const worker = start(async () => completed, { db: lossy.db, maxAttempts: 1, metrics });
  await reach({ completed: 1 });
  await worker.stop(LONG);
  const { attempt, attempts } = await rawRecord(db, id);
  assert.deepEqual([attempt, attempts], [2, 1]);
  assert.deepEqual(await countOutcomes(metrics), { completed: 1, returned: 1 });
});

test('The first check after an outage treats no lease as expired', async () => {
  const id = await store(db, payloadOf());
  await db
    .updateTable('raw_data')
    .set({ status: 'processing', attempt: 1, attempts: 1, lease_expires_at: new Date(0) })
    .where('id', '=', id)
    .execute();
  const lossy = createLossyDatabase(db);
  lossy.lose({ statement: 'lease_expires_at < now()', when: 'before', times: 1 });
  let sweeps = 0;
  const watched = watchDatabase(lossy.db, {
    before(text) {
      if (text.includes('select distinct source_slug')) sweeps += 1;
    },
  });
  const worker = start(async () => completed, { db: watched, leaseMs: 300 });
  await until('a look after the outage', () => sweeps === 1);
  assert.deepEqual(await statuses(), { processing: 1 });
  await reach({ completed: 1 });
  await worker.stop(LONG);
});

/** A request to the model. */
const call: ModelCallEvent = {
  operation: 'extract',
  outcome: 'ok',
  durationMs: 1,
  inputTokens: 7,
  outputTokens: 1,
};

const stage: StageRecord = {
  stage: 'load',
  outcome: 'done',
  started_at: '2026-05-04T09:00:00.000Z',
  duration_ms: 3,
};

test('A shutdown waits for jobs in progress', async () => {
  const id = await store(db, payloadOf());
  const { promise, resolve } = Promise.withResolvers<JobOutcome>();
  let started = false;
  const worker = start(() => {
    started = true;
    return promise;
  });
  await until('the job to start', () => started);
  const stopping = worker.stop(LONG);
  await store(db, payloadOf());
  await sleep(50);
  resolve(completed);
  await stopping;
  assert.equal((await rawRecord(db, id)).status, 'completed');
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

/** Statements that a stopping worker waits for, by a part of their text. */
const awaited = {
  'a claim': 'with recursive',
  'a renewal': 'attempt_usage = job.usage',
  'a return': 'from job as back',
};

for (const [name, statement] of Object.entries(awaited)) {
  test(`A stop does not wait for ${name} that the database does not answer`, async () => {
    const { promise: answer, resolve: letGo } = Promise.withResolvers<void>();
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
    else await until('it to be asked', () => asked > 0);
    await worker.stop({ timeoutMs: 200 });
    assert.ok(asked > 0);
    assert.equal(answered, 0, 'it has stopped all the same');
    letGo();
    await until('what was asked to be answered', () => answered === asked);
    await reach({ pending: 1 });
  });
}

test('A job without its claim is lost, not failed', async () => {
  await storeMany(1);
  const metrics = createMetrics(new Registry());
  const worker = start((_, { signal }) => untilAborted(signal), { metrics, leaseMs: 6000 });
  await reach({ processing: 1 });
  await db.updateTable('raw_data').set({ status: 'failed', attempt: 7 }).execute();
  await until('it to be given up', async () => (await countOutcomes(metrics))['lost'] === 1);
  await worker.stop(LONG);
  assert.deepEqual(await countOutcomes(metrics), { lost: 1 });
});
