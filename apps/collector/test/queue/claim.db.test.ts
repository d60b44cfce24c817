import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../src/tables.ts';
import { insertRawRecords } from '../../src/ingest/store.ts';
import { retryPayload, retryPayloads } from '../../src/queue/retry.ts';
import { hashContent } from '../../src/ingest/payload.ts';
import {
  claimJobs,
  type ClaimOptions,
  unblockMissedPayloads,
  unblockPayloads,
} from '../../src/queue/claim.ts';
import type { Job } from '../../src/queue/job-types.ts';
import {
  createJobEnder,
  type EndedJob,
  endJobs,
  findOrphanedJobs,
  renewLeases,
  rescueJobs,
} from '../../src/queue/job-writes.ts';
import {
  openDatabase,
  readRawRecord,
  store,
  explain,
  createPayload,
  log,
} from '../support/pipeline.ts';
import { completedEnd, storePending, stage } from './harness.ts';

const { db, engine } = await openDatabase();

/** Number of stored payloads: smaller for the embedded database, which stores rows slowly. */
const PAYLOAD_COUNT = engine === 'postgres' ? 100_000 : 10_000;

const LEASE_MS = 60_000;
const claimTerms = { worker: 'test', leaseMs: LEASE_MS };
type Options = Omit<ClaimOptions, 'worker' | 'leaseMs'>;
const claim = (options: Options) => claimJobs(db, { ...claimTerms, ...options });
const claimOne = async () => (await claim({ count: 1 }))[0];
const endJob = createJobEnder({ db, log });
const end = (job: Job, overrides: Partial<EndedJob> = {}) =>
  endJob({ ...job, ...completedEnd, ...overrides });

async function claimExistingJob(): Promise<Job> {
  const job = await claimOne();
  assert.ok(job);
  return job;
}

/** Claims jobs, and joins their sources in order. */
const claimAndJoinSources = async (count: number, lastSource?: string) =>
  (await claim({ count, lastSource })).map(({ sourceSlug }) => sourceSlug).join('');

async function endAllJobs(): Promise<void> {
  await sql`update raw_data set status = 'completed' where status = 'processing'`.execute(db);
}

const createJobProgress = (job: Job, stages = [stage]) => ({
  ...job,
  stages,
  modelUsage: { calls: 1, input_tokens: 2, output_tokens: 3 },
});

async function expire({ rawId }: Job): Promise<void> {
  await sql`update raw_data set lease_expires_at = now() - interval '1 s'
    where id = ${rawId}`.execute(db);
}

async function storePayloads(count: number, overrides: Parameters<typeof createPayload>[0] = {}) {
  const ids: number[] = [];
  for (let index = 0; index < count; index += 1)
    ids.push(await store(db, createPayload(overrides)));
  return ids;
}

const sameListing = { source_slug: 'doshka', external_id: 'same' };
const listingKey = { sourceSlug: 'doshka', externalId: 'same' };

/** Returns the `waits` flags of payloads. */
const readWaitFlags = (ids: readonly number[]) =>
  Promise.all(ids.map(async (id) => (await readRawRecord(db, id)).waits));

/** Stores a payload without unblocking it afterwards. */
async function storeWithoutUnblocking(): Promise<number> {
  const payload = createPayload(sameListing);
  const content_hash = hashContent(payload);
  const rawRecord = { ...sameListing, payload: JSON.stringify(payload), content_hash };
  const storedRecord = (await insertRawRecords(db, [rawRecord])).get(0);
  assert.ok(storedRecord);
  return storedRecord.id;
}

/** Returns the number of payloads that a claim reads. */
async function countReadRows(options: Options): Promise<number> {
  const { rowsRead } = await explain(db, (explainedDb) =>
    claimJobs(explainedDb, { ...claimTerms, ...options }),
  );
  return rowsRead;
}

// Autovacuum could update the statistics, and thereby change the plan during a test.
await sql`alter table raw_data set (autovacuum_enabled = false)`.execute(db);

afterEach(async () => {
  await sql`truncate raw_data cascade`.execute(db);
});

test('A claim takes the oldest payload, marks it and counts the attempt', async () => {
  const [first, second] = await storePayloads(2);
  assert.equal((await claimExistingJob()).rawId, first);
  const row = await readRawRecord(db, first ?? 0);
  assert.deepEqual(
    [row.status, row.attempt, row.attempts, row.claimed_by],
    ['processing', 1, 1, 'test'],
  );
  assert.ok(row.lease_expires_at !== null && row.lease_expires_at > new Date());
  assert.equal((await claimExistingJob()).rawId, second);
  assert.equal(await claimOne(), undefined);
});

test('A worker that lost its claim changes nothing', async () => {
  const [id = 0] = await storePayloads(1);
  const staleProgress = createJobProgress(await claimExistingJob());
  await expire(staleProgress);
  await rescueJobs({ db, log }, { maxAttempts: 3 });
  assert.equal(await end(staleProgress), 'lost', 'while it is pending again');
  const currentJob = await claimExistingJob();
  assert.equal(await end(staleProgress), 'lost', 'while another has it');
  assert.equal(await end(staleProgress, { status: 'returned' }), 'lost');
  assert.deepEqual(await renewLeases(db, [staleProgress], LEASE_MS), [staleProgress]);
  assert.equal((await readRawRecord(db, id)).status, 'processing');
  assert.deepEqual(await Promise.all([end(staleProgress), end(currentJob)]), ['lost', 'completed']);
  assert.equal(await end(currentJob, { status: 'failed' }), 'lost');
  assert.equal((await readRawRecord(db, id)).status, 'completed');
});

test('A postponed job and the later payloads of its listing are not claimed before their time', async () => {
  const [firstId] = await storePayloads(2, sameListing);
  const error = { code: 'model_unavailable', message: 'x' };
  await end(await claimExistingJob(), { status: 'returned', retryDelayMs: 60_000, error });
  const [otherId] = await storePayloads(1);
  assert.equal((await claimExistingJob()).rawId, otherId);
  assert.equal(await claimOne(), undefined);
  assert.deepEqual((await readRawRecord(db, firstId ?? 0)).error, error);
  await sql`update raw_data set retry_at = now() where retry_at is not null`.execute(db);
  assert.equal((await claimExistingJob()).rawId, firstId);
});

test('Orphaned jobs are returned without an attempt and keep their usage and stages', async () => {
  const [lostId = 0, activeId = 0] = await storePayloads(2);
  const jobs = [await claimExistingJob(), await claimExistingJob()];
  await renewLeases(
    db,
    jobs.map((job) => createJobProgress(job)),
    LEASE_MS,
  );
  assert.deepEqual(await findOrphanedJobs(db, 'other', []), []);
  const orphanedJobs = await findOrphanedJobs(db, 'test', [activeId]);
  assert.deepEqual(orphanedJobs, jobs.slice(0, 1));
  for (const job of orphanedJobs) await end(job, { status: 'returned' });
  const { status, attempts, stages, model_usage: usage } = await readRawRecord(db, lostId);
  assert.deepEqual([status, attempts, stages, usage?.calls], ['pending', 0, [stage], 1]);
  assert.equal((await readRawRecord(db, activeId)).status, 'processing');
});

test('A returned or rescued job without a request to the model records no usage', async () => {
  const [id = 0] = await storePayloads(1);
  for (const isRescued of [false, true]) {
    const job = await claimExistingJob();
    await renewLeases(db, [{ ...job, ...completedEnd }], LEASE_MS);
    if (isRescued) {
      await expire(job);
      await rescueJobs({ db, log }, { maxAttempts: 3 });
    } else {
      await end(job, { status: 'returned' });
    }
    const { status, model_usage: usage } = await readRawRecord(db, id);
    assert.deepEqual([status, usage], ['pending', null]);
  }
});

test(`${PAYLOAD_COUNT} pending payloads of one source do not delay another source`, async () => {
  await storePending(db, 'large', PAYLOAD_COUNT);
  await sql`analyze raw_data`.execute(db);
  assert.equal(await claimAndJoinSources(1), 'large');
  await storePending(db, 'small', 1);
  assert.equal(await claimAndJoinSources(1, 'small'), 'small', 'the source has no job in progress');
  assert.equal(await claimAndJoinSources(1, 'large'), 'large');
  assert.ok((await countReadRows({ count: 4, lastSource: 'large' })) < 100);
});

test('A claim takes equal shares of the sources, the oldest payloads first, in rotation', async () => {
  for (const source of ['a', 'b', 'c']) await storePending(db, source, 10);
  await storePending(db, 'd', 1);
  for (const [count, lastSource, expected] of [
    [8, undefined, 'abcdabc'],
    [4, 'd', 'abca'],
    [1, 'b', 'c'],
    [2, 'c', 'ab'],
    [3, 'b', 'cab'],
    [100, 'b', 'cabcabcabcabcb'],
    [1, undefined, ''],
  ] as const) {
    assert.equal(await claimAndJoinSources(count, lastSource), expected);
    await endAllJobs();
  }
});

test('A claim balances the jobs in progress of all workers', async () => {
  await storePending(db, 'a', 20);
  assert.equal(await claimAndJoinSources(6), 'aaaaaa');
  for (const source of ['b', 'c']) await storePending(db, source, 20);
  // The two sources without jobs come first, until each source has six.
  assert.equal(await claimAndJoinSources(2), 'bc');
  assert.equal(await claimAndJoinSources(3, 'a'), 'bcb');
  assert.equal(await claimAndJoinSources(1, 'b'), 'c', 'the source has the fewest jobs');
  assert.equal(await claimAndJoinSources(6), 'bcbcbc');
  assert.equal(await claimAndJoinSources(3, 'a'), 'bca');
  await endAllJobs();
  assert.equal(await claimAndJoinSources(3, 'a'), 'bca', 'ended jobs do not count');
});

test('A claim uses its indexes with any number of sources and completed payloads', async () => {
  for (let index = 0; index < 200; index += 1) await storePending(db, `source-${index}`, 100);
  await sql`update raw_data set updated_at = now()`.execute(db);
  await sql`analyze raw_data`.execute(db);
  for (let round = 0; round < 5; round += 1) {
    await claim({ count: 100 });
    await endAllJobs();
  }
  for (let worker = 0; worker < 10; worker += 1) {
    assert.equal((await claim({ count: 4, lastSource: `source-${worker}` })).length, 4);
  }
  const options = { count: 4, lastSource: 'source-1' };
  const { kinds, indexes } = await explain(db, (explainedDb) =>
    claimJobs(explainedDb, { ...claimTerms, ...options }),
  );
  assert.ok(!kinds.has('Seq Scan'));
  assert.deepEqual(indexes, [
    'raw_data_claimable',
    'raw_data_in_progress',
    'raw_data_pkey',
    'raw_data_unfinished',
  ]);
  assert.ok((await countReadRows(options)) < 300);
});

test('Storing, renewing and ending use indexes with any number of completed payloads', async () => {
  await storePending(db, 'ended', 20_000);
  await sql`update raw_data set status = 'completed', waits = false`.execute(db);
  for (const overrides of [sameListing, {}]) await storePayloads(1, overrides);
  await sql`analyze raw_data`.execute(db);
  const jobs = await claim({ count: 2 });
  const rawRecord = { ...sameListing, payload: '{}', content_hash: '', idempotency_key: 'key' };
  const renewedJobs = jobs.map((job) => createJobProgress(job));
  const endedJobs = jobs.map((job) => ({ ...job, ...completedEnd }));
  const statements: [title: string, (db: Kysely<Tables>) => Promise<unknown>][] = [
    ['storing', (explainedDb) => insertRawRecords(explainedDb, [rawRecord])],
    ['renewing', (explainedDb) => renewLeases(explainedDb, renewedJobs, LEASE_MS)],
    ['ending', (explainedDb) => endJobs(explainedDb, endedJobs)],
    ['unblocking', (explainedDb) => unblockPayloads(explainedDb, [listingKey])],
  ];
  for (const [title, run] of statements) {
    const { indexes, rowsRead } = await explain(db, run);
    assert.ok(
      indexes.length > 0 && rowsRead < 100,
      `${title} reads ${rowsRead} rows with ${indexes.join()}`,
    );
  }
});

test('A claim covers some sources, and the next claim continues with others', async () => {
  const names = Array.from({ length: 40 }, (_, n) => `source-${String(n).padStart(2, '0')}`);
  for (const name of names) await storePending(db, name, 10);
  let lastSource: string | undefined;
  for (const expected of [
    names.slice(0, 16),
    names.slice(16, 32),
    [...names.slice(32), ...names.slice(0, 8)],
  ]) {
    const jobs = await claim({ count: 64, lastSource });
    assert.equal(jobs.length, 64);
    assert.deepEqual([...new Set(jobs.map(({ sourceSlug }) => sourceSlug))], expected);
    lastSource = jobs.at(-1)?.sourceSlug;
  }
});

test('A claim does not scan 20,000 pending payloads of one listing', async () => {
  await storePending(db, 'repeating', 20_000, { sameListing: true });
  await storePending(db, 'other', 5);
  await sql`analyze raw_data`.execute(db);
  assert.ok((await countReadRows({ count: 1 })) < 100);
  const [job] = await claim({ count: 1, lastSource: 'other' });
  assert.equal(job?.externalId, 'same');
  assert.ok((await countReadRows({ count: 4, lastSource: 'other' })) < 100);
  assert.equal(await claimAndJoinSources(10), '');
});

test('Sources without claimable payloads do not hide the next source', async () => {
  // Concurrent inserts may leave two payloads of one listing that do not wait.
  for (let index = 0; index < 2; index += 1)
    await storePending(db, 'blocked', 1, { sameListing: true });
  assert.equal(await claimAndJoinSources(1), 'blocked');
  for (let index = 0; index < 20; index += 1) await storePending(db, `postponed-${index}`, 1);
  await sql`update raw_data set retry_at = now() + interval '1 h'
    where source_slug like 'postponed%'`.execute(db);
  await storePending(db, 'z', 1);
  assert.equal(await claimAndJoinSources(1), 'z');
  assert.equal(await claimAndJoinSources(1), '');
});

test('Only the first payload of a listing is unblocked, and only without an earlier job', async () => {
  await storePayloads(1, sameListing);
  const laterIds = [await storeWithoutUnblocking(), await storeWithoutUnblocking()];
  await unblockPayloads(db, [listingKey]);
  assert.deepEqual(await readWaitFlags(laterIds), [true, true], 'the first is pending');
  const job = await claimExistingJob();
  await unblockMissedPayloads(db);
  assert.deepEqual(await readWaitFlags(laterIds), [true, true], 'the first is processed');
  await endJobs(db, [{ ...job, ...completedEnd }]);
  for (let sweep = 0; sweep < 2; sweep += 1) {
    await unblockMissedPayloads(db);
    assert.deepEqual(await readWaitFlags(laterIds), [false, true]);
  }
});

test('A returned job unblocks earlier retried payloads', async () => {
  const [first = 0] = await storePayloads(1, sameListing);
  await end(await claimExistingJob(), { status: 'failed' });
  await storePayloads(1, sameListing);
  const laterJob = await claimExistingJob();
  await retryPayload(db, first);
  assert.deepEqual(await readWaitFlags([first]), [true]);
  assert.equal(await claimOne(), undefined);
  await end(laterJob, { status: 'returned' });
  assert.equal((await claimExistingJob()).rawId, first);
});

test('Retried payloads of one listing wait for one another', async () => {
  const ids = [];
  for (let index = 0; index < 5; index += 1) ids.push(await storeWithoutUnblocking());
  await db.updateTable('raw_data').set({ status: 'failed', waits: false }).execute();
  assert.equal(await retryPayloads(db, { status: 'failed' }, () => undefined), 5);
  assert.deepEqual(await readWaitFlags(ids), [false, true, true, true, true]);
  for (const id of ids) {
    const job = await claimExistingJob();
    assert.equal(job.rawId, id);
    await end(job);
  }
});
