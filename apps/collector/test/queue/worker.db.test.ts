import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLogger } from '@oselya/kit';
import { sql } from 'kysely';
import { Registry } from 'prom-client';
import { createMetrics } from '../../src/metrics.ts';
import type { Job } from '../../src/queue/job.ts';
import type { JobResult } from '../../src/queue/repository.ts';
import type { JobOptions, ProcessResult } from '../../src/queue/run-job.ts';
import { startWorker, type Worker, type WorkerOptions } from '../../src/queue/worker.ts';
import { fakeBreaker } from '../support/breaker.ts';
import { openDatabase, rawRecord, store } from '../support/database.ts';
import { payloadOf } from '../support/payload.ts';
import { until } from '../support/until.ts';

const database = await openDatabase();
const { db } = database;
const completed: JobResult = { status: 'completed', error: null, stages: [], listingId: null };
const NO_WAIT = { timeoutMs: 0 };
const LONG = { timeoutMs: 20_000 };

const workers: Worker[] = [];
// A test that failed must not leave a worker at work on the next one.
afterEach(async () => {
  await Promise.all(workers.splice(0).map((worker) => worker.stop(NO_WAIT)));
});

type Options = Partial<Omit<WorkerOptions, 'process'>>;

type Line = {
  msg: string;
  raw_id?: number;
  request_id?: string;
  source?: string;
  attempt?: number;
};

/** A log that is kept. */
const logTo = (lines: Line[]) =>
  createLogger({
    level: 'info',
    service: 'test',
    destination: { write: (line) => lines.push(JSON.parse(line) as Line) },
  });

function start(
  process: (job: Job, options: JobOptions) => Promise<ProcessResult>,
  options: Options = {},
) {
  const worker = startWorker({
    db,
    process,
    breaker: fakeBreaker(),
    metrics: createMetrics(new Registry()),
    log: createLogger({ level: 'silent', service: 'test' }),
    slots: 4,
    leaseMs: 60_000,
    maxAttempts: 3,
    pollMs: 20,
    ...options,
  });
  workers.push(worker);
  return worker;
}

async function statuses(): Promise<Record<string, number>> {
  const rows = await db
    .selectFrom('raw_data')
    .select(['status', (eb) => eb.fn.countAll<number>().as('count')])
    .groupBy('status')
    .execute();
  return Object.fromEntries(rows.map((row) => [row.status, row.count]));
}

const reach = (wanted: Record<string, number>) =>
  until(JSON.stringify(wanted), async () => {
    const found = await statuses();
    return Object.entries(wanted).every(([status, count]) => found[status] === count);
  });

const empty = () => db.deleteFrom('raw_data').execute();
const storeMany = (count: number) =>
  Promise.all(Array.from({ length: count }, () => store(db, payloadOf())));

test('a worker drains the queue, with no more in progress than its slots', async () => {
  await storeMany(30);
  let inProgress = 0;
  let most = 0;
  // With a poll of a minute only claiming again at once can drain it in time.
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
  await empty();
});

test('a hint wakes a worker that has nothing to do, and so does the poll', async () => {
  const hinted = start(async () => completed, { pollMs: 60_000 });
  await sleep(20);
  await store(db, payloadOf());
  hinted.hint();
  await reach({ completed: 1 });
  await hinted.stop(LONG);

  const polling = start(async () => completed);
  await store(db, payloadOf());
  await reach({ completed: 2 });
  await polling.stop(LONG);
  await empty();
});

test('a hint that comes while all slots are taken, or while a gate is asked, is not lost', async () => {
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
  worker.hint();
  held.resolve();
  await until('the gate to be asked for the second job', () => asked.length === 2);
  asked[1]?.(true);
  await reach({ completed: 2 });

  await until('the gate to be asked once more', () => asked.length === 3);
  await store(db, payloadOf());
  worker.hint();
  asked[2]?.(false);
  await until('the gate to be asked again at once', () => asked.length === 4);
  asked[3]?.(true);
  await reach({ completed: 3 });
  await until('the last question', () => asked.length === 5);
  asked[4]?.(false);
  await worker.stop(LONG);
  await empty();
});

test('nothing is claimed while it may not be, and a look that fails is as any failure of a claim', async () => {
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
  await until('the failure', () => lines.some(({ msg }) => msg === 'a job could not be claimed'));
  await until('two looks more', () => state.looks >= 3);
  assert.deepEqual(await statuses(), { pending: 2 });
  state.may = true;
  await reach({ completed: 2 });
  await worker.stop(LONG);
  await empty();
});

test('what is said of jobs that nobody runs any more leads to their requests too', async () => {
  const lost = await store(db, payloadOf());
  await sql`update raw_data set status = 'processing', attempt = 1, attempts = 1,
    lease_expires_at = now() - interval '1 second', request_id = 'lost'`.execute(db);
  const lines: Line[] = [];
  const line = (wanted: string) =>
    until(wanted, () => lines.find(({ msg }) => msg === wanted)).then(
      ({ raw_id, request_id, source, attempt }) => [raw_id, request_id, source, attempt],
    );
  const { promise: aborted, resolve: letGo } = Promise.withResolvers<ProcessResult>();
  const worker = start(
    (_, { signal }) => {
      signal.addEventListener('abort', () => letGo(completed));
      return aborted;
    },
    { log: logTo(lines) },
  );
  assert.deepEqual(await line('the worker of a job was lost'), [lost, 'lost', 'doshka', 1]);

  await reach({ processing: 1 });
  await sql`create function refuse() returns trigger language plpgsql as $$
    begin raise exception 'no'; end $$`.execute(db);
  await sql`create trigger refuse before update on raw_data
    for each row when (new.status = 'pending') execute function refuse()`.execute(db);
  await worker.stop(NO_WAIT);
  assert.deepEqual(await line('a job could not be returned'), [lost, 'lost', 'doshka', 2]);
  await sql`drop trigger refuse on raw_data`.execute(db);
  await empty();
});

test('an exception fails its job, and the worker goes on', async () => {
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
  await empty();
});

test('a database that fails for a while does not end the worker', async () => {
  await store(db, payloadOf());
  await db.schema.alterTable('raw_data').renameTo('raw_data_away').execute();
  const worker = start(async () => completed);
  await sleep(60);
  await db.schema.alterTable('raw_data_away').renameTo('raw_data').execute();
  await reach({ completed: 1 });
  await worker.stop(LONG);
  await empty();
});

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

test('shutdown waits for jobs in progress', async () => {
  const id = await store(db, payloadOf());
  const { promise, resolve } = Promise.withResolvers<ProcessResult>();
  let started = false;
  const worker = start(() => {
    started = true;
    return promise;
  });
  await until('the job to start', () => started);
  await store(db, payloadOf());
  const stopping = worker.stop(LONG);
  await sleep(50);
  resolve(completed);
  await stopping;
  assert.equal((await rawRecord(db, id)).status, 'completed');
  assert.deepEqual(await statuses(), { completed: 1, pending: 1 }, 'nothing more was claimed');
  await empty();
});

test('shutdown returns jobs that take too long, at no cost, and they write nothing', async () => {
  const id = await store(db, payloadOf());
  let aborted = false;
  const worker = start(async (_, { signal }) => {
    await new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    aborted = true;
    return completed;
  });
  await reach({ processing: 1 });
  await worker.stop(NO_WAIT);
  assert.ok(aborted);
  const row = await rawRecord(db, id);
  assert.deepEqual([row.status, row.attempts, row.stages], ['pending', 0, []]);
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

test('a heartbeat keeps the lease for as long as the job takes', async () => {
  const id = await store(db, payloadOf());
  const { promise, resolve } = Promise.withResolvers<ProcessResult>();
  const worker = start(() => promise, { leaseMs: 150 });
  await reach({ processing: 1 });
  const rival = start(async () => completed, { leaseMs: 150 });
  const first = (await rawRecord(db, id)).lease_expires_at;
  await until('three renewals', async () => {
    const { lease_expires_at: lease } = await rawRecord(db, id);
    return lease !== null && first !== null && lease.getTime() > first.getTime() + 150;
  });
  resolve(completed);
  await reach({ completed: 1 });
  await Promise.all([worker.stop(LONG), rival.stop(LONG)]);
  assert.equal((await rawRecord(db, id)).attempts, 1);
  await empty();
});

test('the jobs of a worker that is gone are rescued at the start of another', async () => {
  const id = await store(db, payloadOf());
  await db
    .updateTable('raw_data')
    .set({ status: 'processing', attempt: 1, attempts: 1, lease_expires_at: new Date(0) })
    .where('id', '=', id)
    .execute();
  const worker = start(async () => completed);
  await reach({ completed: 1 });
  await worker.stop(LONG);
  assert.equal((await rawRecord(db, id)).attempts, 2);
  await empty();
});

test('a job whose claim was taken away is given up', async () => {
  const id = await store(db, payloadOf());
  let reason: unknown;
  const worker = start(
    async (_, { signal }) => {
      await new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
      reason = signal.reason;
      return completed;
    },
    { leaseMs: 60 },
  );
  await reach({ processing: 1 });
  await db
    .updateTable('raw_data')
    .set({ status: 'failed', attempt: 7 })
    .where('id', '=', id)
    .execute();
  await until('the work to be ended', () => reason !== undefined);
  await worker.stop(LONG);
  assert.equal((reason as Error).name, 'LeaseLostError');
  assert.equal((await rawRecord(db, id)).status, 'failed');
  await empty();
});
