import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { sql } from 'kysely';
import { Registry } from 'prom-client';
import { contentHash } from '../../src/ingest/payload.ts';
import { insertRaws } from '../../src/ingest/repository.ts';
import { createMetrics } from '../../src/metrics.ts';
import { createRetry } from '../../src/operations/raw/retry.ts';
import { claimJobs } from '../../src/queue/claim.sql.ts';
import { finishJobs } from '../../src/queue/finish.sql.ts';
import { createFinish } from '../../src/queue/finish.ts';
import type { Job, JobResult } from '../../src/queue/job.ts';
import { rescueJobs } from '../../src/queue/leases.sql.ts';
import { release, releaseMissed } from '../../src/queue/release.sql.ts';
import { returnJobs } from '../../src/queue/return.sql.ts';
import { startWorker } from '../../src/queue/worker.ts';
import { fakeBreaker } from '../support/breaker.ts';
import { openDatabase, rawRecord, store } from '../support/database.ts';
import { lossyDatabase } from '../support/lossy-database.ts';
import { payloadOf } from '../support/payload.ts';
import { log } from '../support/pipeline.ts';
import { until } from '../support/until.ts';

const { db } = await openDatabase();
const same = { source_slug: 'doshka', external_id: 'same' };
const listing = { sourceSlug: 'doshka', externalId: 'same' };
const completed: JobResult = { status: 'completed', error: null, stages: [], listingId: null };
const finish = createFinish({ db, log });

const claim = () => claimJobs(db, { worker: 'test', leaseMs: 60_000, count: 10 });
const waits = async (id: number) => (await rawRecord(db, id)).waits;

async function claimed(): Promise<Job> {
  const [job, ...more] = await claim();
  assert.ok(job);
  assert.equal(more.length, 0);
  return job;
}

/** Stores a payload as a process does that is killed before it looks whether it still has to wait. */
async function storeAndDie(): Promise<number> {
  const payload = payloadOf(same);
  const content_hash = contentHash(payload);
  const raw = { ...same, payload: JSON.stringify(payload), content_hash };
  const stored = (await insertRaws(db, [raw])).get(0);
  assert.ok(stored);
  return stored.id;
}

afterEach(async () => {
  await db.deleteFrom('raw_data').execute();
});

test('a payload waits behind its listing, and is let go by whoever ends the one before', async () => {
  const [first, second, third] = [
    await store(db, payloadOf(same)),
    await store(db, payloadOf(same)),
    await store(db, payloadOf(same)),
  ];
  assert.deepEqual(
    [await waits(first), await waits(second), await waits(third)],
    [false, true, true],
  );
  await finish({ job: await claimed(), result: completed });
  assert.deepEqual([await waits(second), await waits(third)], [false, true]);
  await finish({ job: await claimed(), result: { ...completed, status: 'failed' } });
  assert.equal((await claimed()).rawId, third);
});

test('a worker that was killed between the end and the release is made up for', async () => {
  await store(db, payloadOf(same));
  const second = await store(db, payloadOf(same));
  await finishJobs(db, [{ job: await claimed(), result: completed }]);
  assert.deepEqual(await claim(), []);
  const worker = startWorker({
    db,
    process: () => Promise.resolve(completed),
    breaker: fakeBreaker(),
    metrics: createMetrics(new Registry()),
    log,
    slots: 2,
    leaseMs: 60_000,
    maxAttempts: 3,
    pollMs: 60_000,
  });
  await until('the second to be done', async () => {
    return (await rawRecord(db, second)).status === 'completed';
  });
  await worker.stop({ timeoutMs: 1000 });
});

test('what was stored behind a payload that ended meanwhile is let go by who stored it', async () => {
  await store(db, payloadOf(same));
  const job = await claimed();
  const late = await storeAndDie();
  await finishJobs(db, [{ job, result: completed }]);
  assert.equal(await waits(late), true);
  assert.equal(await release(db, [listing]), 1);
  assert.equal((await claimed()).rawId, late);
});

test('a release lets nothing go that something is before, and only the first of a listing', async () => {
  await store(db, payloadOf(same));
  const [second, third] = [await storeAndDie(), await storeAndDie()];
  assert.equal(await release(db, [listing]), 0, 'the first is pending');
  const job = await claimed();
  assert.equal((await releaseMissed(db)).released, 0, 'the first is processed');
  await finishJobs(db, [{ job, result: completed }]);
  assert.equal((await releaseMissed(db)).released, 1);
  assert.deepEqual([await waits(second), await waits(third)], [false, true]);
  assert.equal((await releaseMissed(db)).released, 0);
});

test('a look for missed releases goes over so many listings, and the next goes on after them', async () => {
  await store(db, payloadOf(same));
  await sql`insert into raw_data (source_slug, external_id, payload, content_hash, waits)
    select 'doshka', 'missed-' || n, '{}', '', true from generate_series(1, 3) as n`.execute(db);
  const first = await releaseMissed(db, undefined, 2);
  assert.deepEqual(first, {
    released: 2,
    next: { sourceSlug: 'doshka', externalId: 'missed-2' },
  });
  assert.deepEqual(await releaseMissed(db, first.next, 2), { released: 1, next: undefined });
});

for (const isAgain of [false, true]) {
  const when = isAgain ? ', also when the answer to that was lost' : '';
  test(`a job that is returned lets go what was put back before it${when}`, async () => {
    const first = await store(db, payloadOf(same));
    await finish({ job: await claimed(), result: { ...completed, status: 'failed' } });
    await store(db, payloadOf(same));
    const later = await claimed();
    const retry = createRetry({ db, onRetried: () => undefined });
    await retry.one(first);
    assert.equal(await waits(first), true);
    assert.deepEqual(await claim(), []);
    if (isAgain) {
      const lossy = lossyDatabase(db);
      lossy.lose({ statement: 'from job as back', when: 'after', times: 1 });
      await assert.rejects(returnJobs(lossy.db, [later]), { code: 'DATABASE_UNREACHABLE' });
    }
    await returnJobs(db, [later], { isAgain });
    assert.equal((await claimed()).rawId, first);
  });
}

test('a job whose worker is lost for good lets go what waited for it', async () => {
  await store(db, payloadOf(same));
  const second = await store(db, payloadOf(same));
  const job = await claimed();
  await sql`update raw_data set lease_expires_at = now() - interval '1 second'
    where id = ${job.rawId}`.execute(db);
  assert.deepEqual(
    (await rescueJobs(db, 1)).map(({ rawId, status }) => [rawId, status]),
    [[job.rawId, 'failed']],
  );
  assert.equal((await releaseMissed(db)).released, 0, 'there is nothing left to do');
  assert.equal((await claimed()).rawId, second);
});

test('many payloads of one listing that are put back wait for one another', async () => {
  const ids = [];
  for (let nth = 0; nth < 5; nth += 1) ids.push(await storeAndDie());
  await db.updateTable('raw_data').set({ status: 'failed', waits: false }).execute();
  const retry = createRetry({ db, onRetried: () => undefined });
  assert.equal(await retry.all({ status: 'failed' }), 5);
  assert.deepEqual(await Promise.all(ids.map(waits)), [false, true, true, true, true]);
  for (const id of ids) {
    const job = await claimed();
    assert.equal(job.rawId, id);
    await finish({ job, result: completed });
  }
});

test('jobs that end at one moment share a statement, and a bad one does not fail the others', async () => {
  const ids = await Promise.all([1, 2, 3, 4].map(() => store(db, payloadOf())));
  const jobs = await claim();
  await sql`create table statements (size integer)`.execute(db);
  await sql`create function note() returns trigger language plpgsql as $$
    begin insert into statements select count(*) from changed; return null; end $$`.execute(db);
  await sql`create trigger note after update on raw_data referencing new table as changed
    for each statement execute function note()`.execute(db);
  const sizes = async () => {
    const { rows } = await sql<{ size: number }>`delete from statements returning size`.execute(db);
    return rows.map(({ size }) => size).filter((size) => size > 0);
  };
  await Promise.all(jobs.slice(0, 2).map((job) => finish({ job, result: completed })));
  assert.deepEqual(await sizes(), [2]);

  // PostgreSQL has no such character in jsonb.
  const bad: JobResult = { ...completed, error: { code: 'x', message: 'a\0' } };
  const lost = { ...(jobs[2] as Job), attempt: 7 };
  const ends = await Promise.allSettled([
    finish({ job: jobs[2] as Job, result: bad }),
    finish({ job: lost, result: completed }),
    finish({ job: jobs[3] as Job, result: completed }),
  ]);
  assert.deepEqual(
    ends.map((end) => (end.status === 'fulfilled' ? end.value : 'failed')),
    ['failed', false, true],
  );
  await sql`drop trigger note on raw_data`.execute(db);
  const statuses = await Promise.all(ids.map(async (id) => (await rawRecord(db, id)).status));
  assert.equal(statuses.filter((status) => status === 'completed').length, 3);
});
