import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { type Kysely, sql } from 'kysely';
import type { StageRecord, Tables } from '../../src/tables.ts';
import { insertRaws } from '../../src/ingest/store.ts';
import { createPayloadRetry } from '../../src/queue/retry.ts';
import { contentHash } from '../../src/ingest/payload.ts';
import { claimJobs, type ClaimOptions, release, releaseMissed } from '../../src/queue/claim.ts';
import type { Job } from '../../src/queue/job-types.ts';
import {
  createJobFinisher,
  finishJobs,
  renewLeases,
  rescueJobs,
  returnJobs,
  returnStrays,
} from '../../src/queue/job-writes.ts';
import { openDatabase, rawRecord, store, explain, payloadOf, log } from '../support/pipeline.ts';
import { completed, fill } from './harness.ts';

const database = await openDatabase();
const { db, engine } = database;

/** Storing rows is slow in the embedded database. */
const MANY = engine === 'postgres' ? 100_000 : 10_000;

const claimant = { worker: 'test', leaseMs: 60_000 };
const claim = (options: Omit<ClaimOptions, 'worker' | 'leaseMs'>) =>
  claimJobs(db, { ...claimant, ...options });
const claimOne = async () => (await claim({ count: 1 }))[0];
const finish = createJobFinisher({ db, log });

async function claimed(): Promise<Job> {
  const job = await claimOne();
  assert.ok(job);
  return job;
}

/** Claims, and returns the sources of the jobs in their order. */
const sources = async (count: number, lastSource?: string) =>
  (await claim({ count, lastSource })).map(({ sourceSlug }) => sourceSlug).join('');

async function endAll(): Promise<void> {
  await sql`update raw_data set status = 'completed' where status = 'processing'`.execute(db);
}

/** Claims and ends jobs, and returns their sources. */
async function sourcesToEnd(count: number, lastSource?: string): Promise<string> {
  const taken = await sources(count, lastSource);
  await endAll();
  return taken;
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
  modelUsage: { calls: 1, input_tokens: 2, output_tokens: 3 },
});

/** Expires a job's lease. */
async function expire(job: Job): Promise<void> {
  await db
    .updateTable('raw_data')
    .set({ lease_expires_at: new Date(Date.now() - 1000) })
    .where('id', '=', job.rawId)
    .execute();
}

const statusesOf = (...ids: number[]) =>
  Promise.all(ids.map(async (id) => (await rawRecord(db, id)).status));

const same = { source_slug: 'doshka', external_id: 'same' };
const listing = { sourceSlug: 'doshka', externalId: 'same' };
const waits = async (id: number) => (await rawRecord(db, id)).waits;

/** Stores a payload without the check whether it must wait. */
async function storeWithoutRelease(): Promise<number> {
  const payload = payloadOf(same);
  const content_hash = contentHash(payload);
  const raw = { ...same, payload: JSON.stringify(payload), content_hash };
  const stored = (await insertRaws(db, [raw])).get(0);
  assert.ok(stored);
  return stored.id;
}

/** Returns how many payloads a claim has read. */
async function rowsRead(options: Omit<ClaimOptions, 'worker' | 'leaseMs'>): Promise<number> {
  const { rowsRead: rows } = await explain(db, (explained) =>
    claimJobs(explained, { ...claimant, ...options }),
  );
  return rows;
}

// Changed statistics could change the plan during a test.
await sql`alter table raw_data set (autovacuum_enabled = false)`.execute(db);

afterEach(async () => {
  await sql`truncate raw_data cascade`.execute(db);
});

test('A claim takes the oldest payload, marks it and counts the attempt', async () => {
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
  assert.equal(await claimOne(), undefined);
});

test('Payloads of one listing are claimed one after another without delaying other listings', async () => {
  const first = await store(db, payloadOf(same));
  const second = await store(db, payloadOf(same));
  const elsewhere = await store(db, payloadOf({ ...same, source_slug: 'other' }));
  const job = await claimed();
  assert.equal(job.rawId, first);
  assert.equal((await claimed()).rawId, elsewhere);
  assert.equal(await claimOne(), undefined);
  await finish({ job, result: completed });
  assert.equal((await claimed()).rawId, second);
});

test('An expired lease returns the job until its attempts are spent', async () => {
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
});

test('A renewal extends the leases and returns the lost jobs', async () => {
  await store(db, payloadOf());
  await store(db, payloadOf());
  const [kept, lost] = [await claimed(), await claimed()];
  await expire(kept);
  await expire(lost);
  assert.equal((await returnJobs(db, [lost])).has(lost.rawId), true);
  const held = await renewLeases(db, [inProgress(kept), inProgress(lost)], 60_000);
  assert.deepEqual(held, [{ rawId: kept.rawId, attempt: kept.attempt }]);
  assert.deepEqual(await rescueJobs(db, 3), []);
});

test('A worker that lost its claim changes nothing', async () => {
  const id = await store(db, payloadOf());
  const old = await claimed();
  await expire(old);
  await rescueJobs(db, 3);
  assert.equal(await finish({ job: old, result: completed }), false, 'while it is pending again');
  const current = await claimed();
  assert.equal(await finish({ job: old, result: completed }), false, 'while another has it');
  assert.equal((await returnJobs(db, [old])).has(old.rawId), false);
  assert.deepEqual(await renewLeases(db, [inProgress(old)], 60_000), []);
  assert.equal((await rawRecord(db, id)).status, 'processing');
  assert.equal(await finish({ job: current, result: completed }), true);
  assert.equal(await finish({ job: current, result: { ...completed, status: 'failed' } }), false);
  assert.equal((await rawRecord(db, id)).status, 'completed');
});

test('A returned job costs no attempt and needs another claim', async () => {
  const id = await store(db, payloadOf());
  const job = await claimed();
  await renewLeases(db, [inProgress(job, [stage])], 60_000);
  assert.equal((await returnJobs(db, [job])).has(job.rawId), true);
  const row = await rawRecord(db, id);
  assert.deepEqual([row.status, row.attempts, row.attempt], ['pending', 0, 1]);
  assert.deepEqual(row.stages, [stage], 'its stages stay');
  assert.equal((await claimed()).attempt, 2);
});

test('A postponed job and the later payloads of its listing are not claimed before their time', async () => {
  const first = await store(db, payloadOf(same));
  await store(db, payloadOf(same));
  const job = await claimed();
  await returnJobs(db, [
    { ...job, retryMs: 60_000, error: { code: 'model_unavailable', message: 'x' } },
  ]);
  const other = await store(db, payloadOf());
  assert.equal((await claimed()).rawId, other);
  assert.equal(await claimOne(), undefined);
  assert.equal((await rawRecord(db, first)).error?.code, 'model_unavailable');
  await sql`update raw_data set retry_at = now() where retry_at is not null`.execute(db);
  assert.equal((await claimed()).rawId, first);
});

test('Lost jobs are returned without an attempt and keep their usage and stages', async () => {
  const [lost, kept] = [await store(db, payloadOf()), await store(db, payloadOf())];
  const [stray, known] = [await claimed(), await claimed()];
  await renewLeases(db, [inProgress(stray, [stage]), inProgress(known)], 60_000);
  assert.deepEqual(await returnStrays(db, 'other', []), new Set());
  assert.deepEqual(await returnStrays(db, 'test', [known.rawId]), new Set([lost]));
  const { attempts, stages, model_usage: usage } = await rawRecord(db, lost);
  assert.deepEqual([attempts, stages, usage?.calls], [0, [stage], 1]);
  assert.deepEqual(await statusesOf(lost, kept), ['pending', 'processing']);
});

test(`${MANY} pending payloads of one source do not delay another source`, async () => {
  await fill(db, 'large', MANY);
  await sql`analyze raw_data`.execute(db);
  const [before] = await claim({ count: 1 });
  assert.equal(before?.sourceSlug, 'large');
  const single = await store(db, payloadOf({ source_slug: 'small' }));
  const [next] = await claim({ count: 1, lastSource: 'small' });
  assert.equal(next?.rawId, single, 'whatever its turn: it has nothing in progress');
  const [then] = await claim({ count: 1, lastSource: 'large' });
  assert.equal(then?.sourceSlug, 'large', 'the round begins again');
  assert.ok((await rowsRead({ count: 4, lastSource: 'large' })) < 100);
});

test('A claim takes equal shares of the sources, the oldest payloads first, in rotation', async () => {
  for (const source of ['a', 'b', 'c']) await fill(db, source, 10);
  await fill(db, 'd', 1);
  assert.equal(await sourcesToEnd(8), 'abcdabc');
  assert.equal(await sourcesToEnd(4, 'd'), 'abca');
  assert.equal(await sourcesToEnd(1, 'b'), 'c');
  assert.equal(await sourcesToEnd(2, 'c'), 'ab');
  assert.equal(await sourcesToEnd(3, 'b'), 'cab');
  assert.equal(await sourcesToEnd(100, 'b'), 'cabcabcabcabcb');
  assert.equal(await sourcesToEnd(1), '');
  const { rows } = await sql<{ ok: boolean }>`
    select bool_and(claimed_by = 'test') as ok from raw_data`.execute(db);
  assert.equal(rows[0]?.ok, true);
});

test('A claim balances the jobs in progress of all workers', async () => {
  await fill(db, 'a', 20);
  assert.equal(await sources(6), 'aaaaaa');
  for (const source of ['b', 'c']) await fill(db, source, 20);
  // 6, 0, 0: the two sources without jobs come first.
  assert.equal(await sources(2), 'bc');
  assert.equal(await sources(3, 'a'), 'bcb');
  assert.equal(await sources(1, 'b'), 'c', 'the one that has the fewest now');
  assert.equal(await sources(6), 'bcbcbc');
  // 6 each.
  assert.equal(await sources(3, 'a'), 'bca');
  await endAll();
  assert.equal(await sources(3, 'a'), 'bca', 'ended jobs do not count');
});

test('A claim uses its indexes with any number of sources and completed payloads', async () => {
  for (let nth = 0; nth < 200; nth += 1) await fill(db, `source-${nth}`, 100);
  await sql`update raw_data set updated_at = now()`.execute(db);
  await sql`analyze raw_data`.execute(db);
  for (let round = 0; round < 5; round += 1) {
    await claim({ count: 100 });
    await endAll();
  }
  for (let worker = 0; worker < 10; worker += 1) {
    assert.equal((await claim({ count: 4, lastSource: `source-${worker}` })).length, 4);
  }
  const { kinds, indexes } = await explain(db, (explained) =>
    claimJobs(explained, { ...claimant, count: 4, lastSource: 'source-1' }),
  );
  assert.ok(!kinds.has('Seq Scan'));
  assert.deepEqual(indexes, [
    'raw_data_claimable',
    'raw_data_in_progress',
    'raw_data_pkey',
    'raw_data_unfinished',
  ]);
  assert.ok((await rowsRead({ count: 4, lastSource: 'source-1' })) < 300);
});

test('Storing, renewing and finishing use indexes with any number of completed payloads', async () => {
  await fill(db, 'ended', 20_000);
  await sql`update raw_data set status = 'completed', waits = false`.execute(db);
  const jobs = await Promise.all(
    [payloadOf(same), payloadOf()].map((payload) => store(db, payload)),
  );
  await sql`analyze raw_data`.execute(db);
  const taken = await claim({ count: jobs.length });
  const raw = { ...same, payload: '{}', content_hash: '', idempotency_key: 'key' };
  const statements: [title: string, (db: Kysely<Tables>) => Promise<unknown>][] = [
    ['storing', (explained) => insertRaws(explained, [raw])],
    [
      'renewing',
      (explained) =>
        renewLeases(
          explained,
          taken.map((job) => inProgress(job)),
          60_000,
        ),
    ],
    [
      'finishing',
      (explained) =>
        finishJobs(
          explained,
          taken.map((job) => ({ job, result: completed })),
        ),
    ],
    ['releasing', (explained) => release(explained, [listing])],
  ];
  for (const [title, run] of statements) {
    const { indexes, rowsRead: rows } = await explain(db, run);
    assert.ok(indexes.length > 0 && rows < 100, `${title} reads ${rows} rows by ${indexes.join()}`);
  }
});

test('A claim covers some sources, and the next claim continues with others', async () => {
  const names = Array.from({ length: 40 }, (_, n) => `source-${String(n).padStart(2, '0')}`);
  for (const name of names) await fill(db, name, 10);
  const spread: string[][] = [];
  let lastSource: string | undefined;
  for (let nth = 0; nth < 3; nth += 1) {
    const jobs = await claim({ count: 64, lastSource });
    assert.equal(jobs.length, 64);
    lastSource = jobs.at(-1)?.sourceSlug;
    spread.push([...new Set(jobs.map(({ sourceSlug }) => sourceSlug))]);
  }
  assert.deepEqual(spread, [
    names.slice(0, 16),
    names.slice(16, 32),
    [...names.slice(32), ...names.slice(0, 8)],
  ]);
});

test('A claim does not scan 20,000 pending payloads of one listing', async () => {
  await fill(db, 'repeating', 20_000, { sameListing: true });
  await fill(db, 'other', 5);
  await sql`analyze raw_data`.execute(db);
  assert.ok((await rowsRead({ count: 1 })) < 100);
  const [job] = await claim({ count: 1, lastSource: 'other' });
  assert.equal(job?.externalId, 'same');
  assert.ok((await rowsRead({ count: 4, lastSource: 'other' })) < 100);
  assert.equal((await claim({ count: 10 })).length, 0);
});

test('A source without claimable payloads does not hide the next source', async () => {
  // Neither of the two waits, as when both came at the same moment.
  await fill(db, 'blocked', 1, { sameListing: true });
  await fill(db, 'blocked', 1, { sameListing: true });
  const [first] = await claim({ count: 1 });
  assert.equal(first?.sourceSlug, 'blocked');
  await fill(db, 'free', 1);
  assert.equal((await claim({ count: 1 }))[0]?.sourceSlug, 'free');
  assert.deepEqual(await claim({ count: 1 }), []);
});

test('Concurrent claims give each job to one worker', async () => {
  for (const source of ['a', 'b', 'c']) await fill(db, source, 100);
  const taken: number[] = [];
  const work = async () => {
    for (let jobs = await claim({ count: 7 }); jobs.length > 0; jobs = await claim({ count: 7 })) {
      taken.push(...jobs.map(({ rawId }) => rawId));
    }
  };
  await Promise.all(Array.from({ length: 6 }, work));
  // A claim that met only locked rows is empty, and the next claim is not.
  await work();
  assert.equal(taken.length, 300);
  assert.equal(new Set(taken).size, 300);
});

test('A payload waits for its listing and is released when the previous payload ends', async () => {
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

test('A release frees only the first payload of a listing, and only without an earlier job', async () => {
  await store(db, payloadOf(same));
  const [second, third] = [await storeWithoutRelease(), await storeWithoutRelease()];
  assert.equal(await release(db, [listing]), 0, 'the first is pending');
  const job = await claimed();
  assert.equal((await releaseMissed(db)).released, 0, 'the first is processed');
  await finishJobs(db, [{ job, result: completed }]);
  assert.equal((await releaseMissed(db)).released, 1);
  assert.deepEqual([await waits(second), await waits(third)], [false, true]);
  assert.equal((await releaseMissed(db)).released, 0);
});

test('A returned job releases earlier retried payloads', async () => {
  const first = await store(db, payloadOf(same));
  await finish({ job: await claimed(), result: { ...completed, status: 'failed' } });
  await store(db, payloadOf(same));
  const later = await claimed();
  await createPayloadRetry({ db, onRetried: () => undefined }).one(first);
  assert.equal(await waits(first), true);
  assert.deepEqual(await claim({ count: 10 }), []);
  await returnJobs(db, [later]);
  assert.equal((await claimed()).rawId, first);
});

test('Retried payloads of one listing wait for one another', async () => {
  const ids = [];
  for (let nth = 0; nth < 5; nth += 1) ids.push(await storeWithoutRelease());
  await db.updateTable('raw_data').set({ status: 'failed', waits: false }).execute();
  const retry = createPayloadRetry({ db, onRetried: () => undefined });
  assert.equal(await retry.all({ status: 'failed' }), 5);
  assert.deepEqual(await Promise.all(ids.map(waits)), [false, true, true, true, true]);
  for (const id of ids) {
    const job = await claimed();
    assert.equal(job.rawId, id);
    await finish({ job, result: completed });
  }
});
