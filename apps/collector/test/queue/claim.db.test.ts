import assert from 'node:assert/strict';
import { test } from 'node:test';
import { claimJobs, type ClaimOptions } from '../../src/queue/claim.sql.ts';
import type { Job } from '../../src/queue/job.ts';
import { createFinish } from '../../src/queue/finish.ts';
import { type JobResult, renewLeases, rescueJobs, returnJob } from '../../src/queue/repository.ts';
import { openDatabase, rawRecord, store } from '../support/database.ts';
import { log } from '../support/pipeline.ts';
import { payloadOf } from '../support/payload.ts';

const { db } = await openDatabase();

const finish = createFinish({ db, log });
const claimMany = (options: Partial<ClaimOptions> & { count: number }) =>
  claimJobs(db, { worker: 'test', leaseMs: 60_000, ...options });
const claim = async (except?: number) => (await claimMany({ count: 1, except }))[0];
const finishJob = (job: Job, result: JobResult) => finish({ job, result });
const completed: JobResult = { status: 'completed', error: null, stages: [], listingId: null };

async function claimed(): Promise<Job> {
  const job = await claim();
  assert.ok(job);
  return job;
}

async function drain(): Promise<void> {
  await db.deleteFrom('raw_data').execute();
}

/** What a worker that stopped leaves behind. */
async function expire(job: Job): Promise<void> {
  await db
    .updateTable('raw_data')
    .set({ lease_expires_at: new Date(Date.now() - 1000) })
    .where('id', '=', job.rawId)
    .execute();
}

test('of many claims at once each job is claimed once', async () => {
  const ids = await Promise.all(Array.from({ length: 40 }, () => store(db, payloadOf())));
  const jobs = await Promise.all(Array.from({ length: 60 }, () => claim()));
  const got = jobs.filter((job) => job !== undefined).map((job) => job.rawId);
  // A claim that meets rows locked by others may come back empty, as a worker's next one does not.
  for (let job = await claim(); job !== undefined; job = await claim()) got.push(job.rawId);
  assert.deepEqual(
    got.toSorted((a, b) => a - b),
    ids.toSorted((a, b) => a - b),
  );
  await drain();
});

test('a claim takes the oldest, marks it and counts the attempt', async () => {
  const [first, second] = [await store(db, payloadOf()), await store(db, payloadOf())];
  const job = await claimed();
  assert.equal(job.rawId, first);
  const row = await rawRecord(db, first);
  assert.equal(row.status, 'processing');
  assert.equal(row.attempt, 1);
  assert.equal(row.attempts, 1);
  assert.equal(row.claimed_by, 'test');
  assert.ok(row.lease_expires_at !== null && row.lease_expires_at > new Date());
  assert.equal((await claimed()).rawId, second);
  assert.equal(await claim(), undefined);
  await drain();
});

test("a listing's payloads are taken one after another, others go ahead", async () => {
  const same = { external_id: 'same' };
  const first = await store(db, payloadOf(same));
  const second = await store(db, payloadOf(same));
  const elsewhere = await store(db, payloadOf({ ...same, source_slug: 'other' }));
  const job = await claimed();
  assert.equal(job.rawId, first);
  assert.equal((await claimed()).rawId, elsewhere);
  assert.equal(await claim(), undefined);
  await finishJob(job, completed);
  assert.equal((await claimed()).rawId, second);
  await drain();
});

test('an earlier payload that is put back waits for the later one in progress', async () => {
  const same = { external_id: 'same' };
  const first = await store(db, payloadOf(same));
  await finishJob(await claimed(), { ...completed, status: 'failed' });
  await store(db, payloadOf(same));
  const later = await claimed();
  await db.updateTable('raw_data').set({ status: 'pending' }).where('id', '=', first).execute();
  assert.equal(await claim(), undefined);
  await finishJob(later, completed);
  assert.equal((await claimed()).rawId, first);
  await drain();
});

test('a probe takes the next job, not the same one again', async () => {
  const [first, second] = [await store(db, payloadOf()), await store(db, payloadOf())];
  assert.equal((await claim(first))?.rawId, second);
  assert.equal((await claim(second))?.rawId, first);
  await drain();
});

test('a lost lease gives the job back until its attempts are spent', async () => {
  const id = await store(db, payloadOf());
  for (const attempt of [1, 2]) {
    const job = await claimed();
    assert.equal(job.attempt, attempt);
    assert.deepEqual(await rescueJobs(db, 3), []);
    await expire(job);
    assert.deepEqual(await rescueJobs(db, 3), [{ rawId: id, status: 'pending' }]);
  }
  await expire(await claimed());
  assert.deepEqual(await rescueJobs(db, 3), [{ rawId: id, status: 'failed' }]);
  const row = await rawRecord(db, id);
  assert.equal(row.status, 'failed');
  assert.equal(row.error?.code, 'lease_lost');
  assert.equal(row.attempts, 3);
  await drain();
});

test('renewing keeps the lease, and tells which are lost', async () => {
  await store(db, payloadOf());
  await store(db, payloadOf());
  const [kept, lost] = [await claimed(), await claimed()];
  await expire(kept);
  await expire(lost);
  assert.equal(await returnJob(db, lost), true);
  const held = await renewLeases(db, [kept, lost], 60_000);
  assert.deepEqual(held, [{ rawId: kept.rawId, attempt: kept.attempt }]);
  assert.deepEqual(await rescueJobs(db, 3), []);
  await drain();
});

test('a worker that lost its claim changes nothing', async () => {
  const id = await store(db, payloadOf());
  const old = await claimed();
  await expire(old);
  await rescueJobs(db, 3);
  assert.equal(await finishJob(old, completed), false, 'while it is pending again');
  const current = await claimed();
  assert.equal(await finishJob(old, completed), false, 'while another has it');
  assert.equal(await returnJob(db, old), false);
  assert.deepEqual(await renewLeases(db, [old], 60_000), []);
  assert.equal((await rawRecord(db, id)).status, 'processing');
  assert.equal(await finishJob(current, completed), true);
  assert.equal(await finishJob(current, { ...completed, status: 'failed' }), false);
  assert.equal((await rawRecord(db, id)).status, 'completed');
  await drain();
});

test('a returned job has cost no attempt, but is another claim', async () => {
  const id = await store(db, payloadOf());
  const job = await claimed();
  assert.equal(await returnJob(db, job), true);
  const row = await rawRecord(db, id);
  assert.deepEqual([row.status, row.attempts, row.attempt], ['pending', 0, 1]);
  assert.equal((await claimed()).attempt, 2);
  await drain();
});
