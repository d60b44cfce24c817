import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { claimAlone, takeDrain } from '../../src/queue/claim-alone.sql.ts';
import { claimJobs } from '../../src/queue/claim.sql.ts';
import type { Job } from '../../src/queue/job.ts';
import { expireLeases, rescueJobs } from '../../src/queue/leases.sql.ts';
import type { JobOptions, ProcessResult } from '../../src/queue/run-job.ts';
import { rawRecord, store } from '../support/database.ts';
import { payloadOf } from '../support/payload.ts';
import { until } from '../support/until.ts';
import { watchedDatabase } from '../support/watched-database.ts';
import { completed, heldJobs, LONG, openQueue } from './harness.ts';

const { db, empty, reach, start, statuses, storeMany } = await openQueue();

const MAX_ATTEMPTS = 3;
const claimant = { worker: 'to be killed', leaseMs: 60_000 };
const asked = { ...claimant, aloneFrom: MAX_ATTEMPTS - 1 };

/** A worker takes so many jobs, and dies of one. */
async function killOne(count: number, aloneFrom = MAX_ATTEMPTS - 1): Promise<Job[]> {
  const jobs = await claimJobs(db, { ...claimant, count, aloneFrom });
  await expireLeases(db);
  await rescueJobs(db, MAX_ATTEMPTS);
  return jobs;
}

/** Notes with how many others each job runs. */
function watched(process: (job: Job, options: JobOptions) => Promise<ProcessResult>) {
  const running = new Set<number>();
  /** The ids that each job has met, its own included. */
  const met = new Map<number, Set<number>>();
  return {
    met,
    order: () => [...met.keys()],
    process: async (job: Job, options: JobOptions): Promise<ProcessResult> => {
      running.add(job.rawId);
      met.set(job.rawId, new Set(running));
      for (const id of running) met.get(id)?.add(job.rawId);
      try {
        return await process(job, options);
      } finally {
        running.delete(job.rawId);
      }
    },
  };
}

test('of four jobs whose worker is killed three times by one of them, only that one is failed', async () => {
  const poison = await store(db, payloadOf());
  const others = await storeMany(3);
  for (let kill = 1; kill < MAX_ATTEMPTS; kill += 1) {
    assert.equal((await killOne(4)).length, 4);
  }
  assert.deepEqual(await statuses(), { pending: 4 });
  assert.deepEqual(await killOne(4), [], 'none of them is taken with others any more');

  const dead = Promise.withResolvers<void>();
  const jobs = watched(async (job, { signal }) => {
    if (job.rawId !== poison) return completed;
    dead.resolve();
    await new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    return completed;
  });
  const worker = start(jobs.process, { leaseMs: 6000 });
  await dead.promise;
  assert.deepEqual([...(jobs.met.get(poison) ?? [])], [poison], 'nobody is beside it');
  // It dies: what it was working on has lost its worker for the third time.
  await db.transaction().execute(async (transaction) => {
    // Its worker renews the lease meanwhile, and waits for this.
    await sql`update raw_data set lease_expires_at = now() - interval '1 second'
      where id = ${poison}`.execute(transaction);
    await rescueJobs(transaction, MAX_ATTEMPTS);
  });
  await reach({ completed: 3, failed: 1 });
  await worker.stop(LONG);
  const { status, error } = await rawRecord(db, poison);
  assert.deepEqual([status, error?.code], ['failed', 'lease_lost']);
  for (const id of others) {
    assert.deepEqual([...(jobs.met.get(id) ?? [])], [id], 'each had its last attempt to itself');
    assert.equal((await rawRecord(db, id)).attempts, MAX_ATTEMPTS);
  }
  await empty();
});

test('who waits to be alone has a turn in a backlog that does not end, and others after it', async () => {
  const alone = await storeMany(2);
  await killOne(2);
  await killOne(2);
  await storeMany(30);
  let added = 0;
  const jobs = watched(async () => {
    if (added === 2000 || alone.every((id) => jobs.met.has(id))) return completed;
    added += 1;
    await storeMany(1);
    return completed;
  });
  const worker = start(jobs.process);
  await until('both', () => alone.every((id) => jobs.met.has(id)) || added === 2000);
  assert.ok(added < 2000, 'it never ended');
  const order = jobs.order();
  await until('all to end', async () => Object.keys(await statuses()).join('') === 'completed');
  await worker.stop(LONG);
  for (const id of alone) assert.deepEqual([...(jobs.met.get(id) ?? [])], [id]);
  const [first = 0, second = 0] = alone.map((id) => order.indexOf(id)).toSorted((a, b) => a - b);
  assert.ok(second - first > 1, 'others go between two of them');
  await empty();
});

test('of two busy workers one drains for who waits to be alone, and no more once another took it', async () => {
  const open = () => {
    const held = heldJobs();
    const state = { looks: 0, isDraining: false };
    const watch = watchedDatabase(db, {
      after(text, { rows }) {
        if (!text.includes('claimed_by is null')) return;
        state.looks += 1;
        state.isDraining = rows.length > 0;
      },
    });
    return { held, state, worker: start(held.process, { db: watch }) };
  };
  await storeMany(8);
  const both = [open(), open()];
  await until('all slots to be taken', () => both.every(({ held }) => held.begun.length === 4));
  const [id = 0] = await storeMany(1);
  await sql`update raw_data set attempts = 2 where id = ${id}`.execute(db);
  await storeMany(10);
  for (const { held } of both) held.begun[0]?.end();
  const drained = await until('one to drain', () => both.find(({ state }) => state.isDraining));
  const busy = both.find((one) => one !== drained);
  assert.ok(busy !== undefined);
  const [begun, { looks }] = [drained.held.begun.length, drained.state];
  for (const nth of [1, 2]) {
    await until('the other to go on', () => busy.held.begun.length >= 4 + nth);
    for (const { held } of both) held.begun[nth]?.end();
  }
  await until('it to look again and again', () => drained.state.looks > looks + 3);
  assert.deepEqual([drained.held.begun.length, busy.state.isDraining], [begun, false]);

  const third = open();
  await until('one that has nothing to do to take it', () => third.held.begun.length > 0);
  await until('the one that drained to go on', () => drained.held.begun.length > begun);
  assert.equal(third.held.begun[0]?.rawId, id);
  assert.equal(third.held.begun.length, 1, 'nobody is beside it');
  for (const { held } of [drained, busy, third]) held.endAll();
  await reach({ completed: 19 });
  await Promise.all([drained, busy, third].map(({ worker }) => worker.stop(LONG)));
  await empty();
});

test('a worker drains for a job as long as it asks, and until another has claimed it', async () => {
  const [id = 0] = await storeMany(1);
  assert.equal(await takeDrain(db, asked), false, 'it has lost no worker');
  await killOne(1);
  await killOne(1);
  const other = { ...asked, worker: 'other' };
  assert.equal(await takeDrain(db, { ...asked, except: [id] }), false);
  for (const expected of [true, true]) assert.equal(await takeDrain(db, asked), expected);
  assert.equal(await takeDrain(db, other), false);
  await sql`update raw_data set lease_expires_at = now() - interval '1 second'`.execute(db);
  assert.deepEqual(await rescueJobs(db, MAX_ATTEMPTS), [], 'it is pending as before');
  assert.equal(await takeDrain(db, other), true, 'the first is gone');
  assert.equal(await takeDrain(db, asked), false);
  assert.equal((await claimAlone(db, asked))?.rawId, id);
  assert.equal(await takeDrain(db, other), false);
  await empty();
});

test('the order of a listing holds for who is alone, and for who waits behind', async () => {
  const same = { external_id: 'same' };
  const earlier = await store(db, payloadOf(same));
  await sql`update raw_data set status = 'failed'`.execute(db);
  const first = await store(db, payloadOf(same));
  await killOne(1);
  await killOne(1);
  const second = await store(db, payloadOf(same));
  assert.deepEqual(await killOne(4), []);
  for (const status of ['pending', 'processing']) {
    await sql`update raw_data set status = ${status} where id = ${earlier}`.execute(db);
    assert.equal(await takeDrain(db, asked), false, 'nobody drains for what cannot be claimed');
    assert.equal(await claimAlone(db, asked), undefined);
  }
  await sql`update raw_data set status = 'completed' where id = ${earlier}`.execute(db);
  assert.ok(await takeDrain(db, asked));
  assert.equal((await claimAlone(db, asked))?.rawId, first);
  assert.equal(await claimAlone(db, asked), undefined);
  assert.deepEqual(await claimJobs(db, { ...claimant, count: 4 }), []);
  await sql`update raw_data set status = 'completed' where id = ${first}`.execute(db);
  await sql`update raw_data set waits = false where id = ${second}`.execute(db);
  assert.equal(await takeDrain(db, asked), false, 'it has lost no worker');
  assert.equal((await claimJobs(db, { ...claimant, count: 4 }))[0]?.rawId, second);
  await empty();
});

test('a job that has one attempt only is not alone, nor is one that came back at a stop', async () => {
  const [id = 0] = await storeMany(1);
  const stopped = start(
    (_, { signal }) =>
      new Promise<ProcessResult>((resolve) => {
        signal.addEventListener('abort', () => resolve(completed), { once: true });
      }),
  );
  await reach({ processing: 1 });
  await stopped.stop({ timeoutMs: 0 });
  await reach({ pending: 1 });
  assert.equal(await claimAlone(db, { ...asked, aloneFrom: 1 }), undefined);
  const worker = start(async () => completed, { maxAttempts: 1 });
  await reach({ completed: 1 });
  await worker.stop(LONG);
  assert.equal((await rawRecord(db, id)).attempts, 1);
  await empty();
});

test('while one is alone nothing else is claimed, whatever comes', async () => {
  const [id = 0] = await storeMany(1);
  await killOne(1);
  await killOne(1);
  const ended = Promise.withResolvers<void>();
  const jobs = watched(async (job) => {
    if (job.rawId === id) await ended.promise;
    return completed;
  });
  const worker = start(jobs.process);
  await until('it to be begun', () => jobs.met.has(id));
  await storeMany(4);
  worker.notify();
  // Another process takes them meanwhile.
  const other = start(async () => completed);
  await reach({ completed: 4, processing: 1 });
  ended.resolve();
  await reach({ completed: 5 });
  await Promise.all([worker.stop(LONG), other.stop(LONG)]);
  assert.deepEqual(jobs.order(), [id]);
  await empty();
});
