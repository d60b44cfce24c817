import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import type { StageRecord } from '../../src/tables.ts';
import { inTime } from '../../src/async/in-time.ts';
import { claimJobs, type ClaimOptions } from '../../src/queue/claim.sql.ts';
import type { Job, JobResult } from '../../src/queue/job.ts';
import { createFinish } from '../../src/queue/finish.ts';
import { finishJobs } from '../../src/queue/finish.sql.ts';
import { putBackSome, readTime } from '../../src/queue/index.ts';
import { renewLeases, rescueJobs } from '../../src/queue/leases.sql.ts';
import { returnJobs } from '../../src/queue/return.sql.ts';
import { openDatabase, rawRecord, store } from '../support/database.ts';
import { untilLockWait } from '../support/lock-waits.ts';
import { log } from '../support/pipeline.ts';
import { payloadOf } from '../support/payload.ts';

const database = await openDatabase();
const { db } = database;

const finish = createFinish({ db, log });
const claimMany = (options: Partial<ClaimOptions> & { count: number }) =>
  claimJobs(db, { worker: 'test', leaseMs: 60_000, ...options });
const claim = async (...except: number[]) => (await claimMany({ count: 1, except }))[0];
const finishJob = (job: Job, result: JobResult) => finish({ job, result });
const completed: JobResult = { status: 'completed', error: null, stages: [], listingId: null };

async function claimed(): Promise<Job> {
  const job = await claim();
  assert.ok(job);
  return job;
}

const stage: StageRecord = {
  stage: 'load',
  outcome: 'done',
  started_at: '2026-05-04T09:00:00Z',
  duration_ms: 3,
};
const inProgress = (job: Job, stages: StageRecord[] = []) => ({
  ...job,
  stages,
  usage: { calls: 0, input_tokens: 0, output_tokens: 0 },
});

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
  assert.equal(await claim(first, second), undefined);
  assert.equal((await claim(second))?.rawId, first);
  await drain();
});

test('a lost lease gives the job back until its attempts are spent', async () => {
  const payload = payloadOf();
  const id = await store(db, payload);
  const lost = {
    rawId: id,
    sourceSlug: 'doshka',
    externalId: payload.external_id,
    requestId: null,
  };
  for (const attempt of [1, 2]) {
    const job = await claimed();
    assert.equal(job.attempt, attempt);
    assert.deepEqual(await rescueJobs(db, 3), []);
    await expire(job);
    assert.deepEqual(await rescueJobs(db, 3), [{ ...lost, attempt, status: 'pending' }]);
  }
  await expire(await claimed());
  assert.deepEqual(await rescueJobs(db, 3), [{ ...lost, attempt: 3, status: 'failed' }]);
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
  assert.equal((await returnJobs(db, [lost])).has(lost.rawId), true);
  const held = await renewLeases(db, [inProgress(kept), inProgress(lost)], 60_000);
  assert.deepEqual(held, [{ rawId: kept.rawId, attempt: kept.attempt }]);
  assert.deepEqual(await rescueJobs(db, 3), []);
  await drain();
});

test('of a job whose worker was lost for good the stages are known that it had been through', async () => {
  const id = await store(db, payloadOf());
  const job = await claimed();
  await renewLeases(db, [inProgress(job, [stage])], 60_000);
  assert.deepEqual((await rawRecord(db, id)).stages, [stage], 'also while it is in progress');
  await expire(job);
  await rescueJobs(db, 1);
  const { status, stages } = await rawRecord(db, id);
  assert.deepEqual([status, stages], ['failed', [stage]]);
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
  assert.equal((await returnJobs(db, [old])).has(old.rawId), false);
  assert.deepEqual(await renewLeases(db, [inProgress(old)], 60_000), []);
  assert.equal((await rawRecord(db, id)).status, 'processing');
  assert.equal(await finishJob(current, completed), true);
  assert.equal(await finishJob(current, { ...completed, status: 'failed' }), false);
  assert.equal((await rawRecord(db, id)).status, 'completed');
  await drain();
});

test('a returned job has cost no attempt, but is another claim', async () => {
  const id = await store(db, payloadOf());
  const job = await claimed();
  await renewLeases(db, [inProgress(job, [stage])], 60_000);
  assert.equal((await returnJobs(db, [job])).has(job.rawId), true);
  const row = await rawRecord(db, id);
  assert.deepEqual([row.status, row.attempts, row.attempt], ['pending', 0, 1]);
  assert.deepEqual(row.stages, [stage], 'what is known of it stays');
  assert.equal((await claimed()).attempt, 2);
  await drain();
});

test('an end that the database gives up for the sake of another statement is written all the same', async () => {
  const id = await store(db, payloadOf());
  const job = await claimed();
  await sql`create sequence ends`.execute(db);
  await sql`create function give_up_once() returns trigger language plpgsql as $$
    begin
      if nextval('ends') = 1 then raise exception 'deadlock detected' using errcode = '40P01'; end if;
      return new;
    end $$`.execute(db);
  await sql`create trigger give_up_once before update on raw_data
    for each row when (new.status = 'completed') execute function give_up_once()`.execute(db);
  assert.equal(await finishJob(job, completed), true);
  assert.equal((await rawRecord(db, id)).status, 'completed');
  await sql`drop trigger give_up_once on raw_data`.execute(db);
  await drain();
});

if (!database.isExclusive) {
  test('what another transaction holds is passed over by claims, by the rescue and by retries', async () => {
    const [held, free] = [await store(db, payloadOf()), await store(db, payloadOf())];

    /** Does something while the first payload is held. */
    const whileHeld = (work: () => Promise<unknown>) =>
      db.transaction().execute(async (trx) => {
        await sql`select from raw_data where id = ${held} for update`.execute(trx);
        assert.ok(await inTime(work(), 20_000), 'it waits for the transaction');
      });

    await whileHeld(claim);
    assert.deepEqual(await statusesOf(held, free), ['pending', 'processing']);

    await claimed();
    await sql`update raw_data set lease_expires_at = now() - interval '1 second'`.execute(db);
    await whileHeld(() => rescueJobs(db, 3));
    assert.deepEqual(await statusesOf(held, free), ['processing', 'pending']);

    await sql`update raw_data set status = 'failed', attempts = 0`.execute(db);
    const all = { status: 'failed', source: undefined, limit: 10 } as const;
    await whileHeld(async () => putBackSome(db, { ...all, endedBefore: await readTime(db) }));
    assert.deepEqual(await statusesOf(held, free), ['failed', 'pending']);
    await drain();
  });

  const statusesOf = (...ids: number[]) =>
    Promise.all(ids.map(async (id) => (await rawRecord(db, id)).status));

  const writers = {
    'the ends of jobs': (jobs: Job[]) =>
      finishJobs(
        db,
        jobs.map((job) => ({ job, result: completed })),
      ),
    'renewed leases': (jobs: Job[]) =>
      renewLeases(
        db,
        jobs.map((job) => inProgress(job)),
        60_000,
      ),
  };
  for (const [what, write] of Object.entries(writers)) {
    test(`${what} lock records in the order of their ids, wherever these are`, async () => {
      await store(db, payloadOf());
      await store(db, payloadOf());
      const [first, second] = [await claimed(), await claimed()];
      // Its new version lies behind the other record, so that whoever reads the table meets it last.
      await sql`update raw_data set claimed_by = 'moved' where id = ${first.rawId}`.execute(db);
      let writing: Promise<unknown> | undefined;
      await db.transaction().execute(async (trx) => {
        await sql`select from raw_data where id = ${second.rawId} for update`.execute(trx);
        writing = write([second, first]);
        await untilLockWait(db);
        const { rows } = await sql`select from raw_data where id = ${first.rawId}
          for update skip locked`.execute(trx);
        assert.equal(
          rows.length,
          0,
          'it has locked the first record before it waits for the second',
        );
      });
      await writing;
      await drain();
    });
  }
}
