import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { setImmediate as tick } from 'node:timers/promises';
import { connect } from '@oselya/db';
import { openFolder, until } from '@oselya/testing';
import { sql } from 'kysely';
import { Registry } from 'prom-client';
import { startWorker } from '../../src/main.ts';
import { claimJobs } from '../../src/queue/claim.ts';
import { createQueueStatisticsReader, registerQueueMetrics } from '../../src/queue/statistics.ts';
import { endJobs } from '../../src/queue/job-writes.ts';
import { createJobNotifier, QUEUE_CHANNEL } from '../../src/queue/notifications.ts';
import { retryPayload } from '../../src/queue/retry.ts';
import { createReprocessTransition } from '../../src/queue/transitions.ts';
import { POLL_MS } from '../../src/queue/worker.ts';
import type { Tables } from '../../src/tables.ts';
import { startCollector } from '../support/collector.ts';
import {
  MINIMAL_ENV,
  openDatabase,
  waitUntilCompleted,
  store,
  createPayload,
  log,
  claimJob,
} from '../support/pipeline.ts';
import { completedEnd } from './harness.ts';

const database = await openDatabase();
const { db } = database;
const onError = (error: unknown) => assert.fail(String(error));
const readQueue = createQueueStatisticsReader({ db, onError });
const claimTerms = { worker: 'test', leaseMs: 60_000 };

const setAge = (rawId: number, seconds: number) =>
  sql`update raw_data set created_at = now() - ${seconds} * interval '1 second'
    where id = ${rawId}`.execute(db);

async function readOldestSeconds(): Promise<number | null> {
  const { oldest_pending_seconds: seconds } = await readQueue();
  return seconds === null ? null : Math.round(seconds);
}

afterEach(async () => {
  await db.deleteFrom('raw_data').execute();
});

test('Each payload is counted once', async () => {
  for (let index = 0; index < 4; index += 1) await store(db, createPayload());
  for (let index = 0; index < 3; index += 1)
    await store(db, createPayload({ external_id: 'same' }));
  await sql`insert into raw_data (source_slug, external_id, payload, content_hash, status, updated_at)
    select 'doshka', n::text, '{}', '', status, now() - minutes * interval '1 minute'
    from (values ('completed', 1), ('completed', 9), ('invalid', 4), ('failed', 6))
      as ended (status, minutes), generate_series(1, 10) as n`.execute(db);
  await claimJobs(db, { ...claimTerms, count: 2 });
  const { counts, finished_per_minute: finishedPerMinute } = await readQueue();
  assert.deepEqual(counts, { pending: 5, processing: 2, completed: 20, invalid: 10, failed: 10 });
  assert.equal(finishedPerMinute, 4);
  const registry = new Registry();
  registerQueueMetrics(registry, { readQueue, onError });
  assert.match(await registry.metrics(), /collector_queue_jobs\{status="pending"\} 5\n/);
});

test('The oldest pending payload is found in any source and behind its listing', async () => {
  assert.equal(await readOldestSeconds(), null);
  await setAge(await store(db, createPayload({ external_id: 'same' })), 900);
  assert.equal(await readOldestSeconds(), 900);
  await claimJobs(db, { ...claimTerms, count: 1 });
  assert.equal(await readOldestSeconds(), null, 'the payload is being processed');
  await setAge(await store(db, createPayload({ external_id: 'same' })), 300);
  assert.equal(await readOldestSeconds(), 300);
  for (const [source_slug, seconds] of [
    ['a', 100],
    ['b', 400],
    ['c', 200],
  ] as const) {
    await setAge(await store(db, createPayload({ source_slug })), seconds);
  }
  assert.equal(await readOldestSeconds(), 400);
});

test('The wait of a retried or reprocessed payload starts at the retry', async () => {
  const rawId = await store(db, createPayload());
  await setAge(rawId, 900);
  const job = await claimJob(db);
  await endJobs(db, [{ ...job, ...completedEnd, status: 'failed' }]);
  await retryPayload(db, rawId);
  assert.ok(((await readOldestSeconds()) ?? Infinity) < 600, 'retried');
  await sql`update raw_data set queued_at = now() - interval '700 seconds'`.execute(db);
  assert.equal(await readOldestSeconds(), 700);
  await sql`update raw_data set status = 'completed'`.execute(db);
  await sql`update raw_data set ${createReprocessTransition(claimTerms)}`.execute(db);
  await endJobs(db, [{ ...job, ...completedEnd, attempt: 2, status: 'returned' }]);
  assert.ok(((await readOldestSeconds()) ?? Infinity) < 600, 'reprocessed');
});

test('Large counts run in the background', async () => {
  await sql`insert into raw_data (source_slug, external_id, payload, content_hash, status, updated_at)
    select 'doshka', n::text, '{}', '', status, now() - n / 4 * interval '1 hour'
    from unnest(array['completed', 'invalid', 'failed']) as status,
      generate_series(1, 25) as n`.execute(db);
  const read = createQueueStatisticsReader({ db, maxCounted: 10, onError });
  const firstReading = await read();
  assert.deepEqual([firstReading.counts.completed, firstReading.ended_age_seconds], [null, null]);
  const counts = await until('the counts', async () => {
    const { counts: currentCounts } = await read();
    return currentCounts.failed !== null && currentCounts;
  });
  assert.deepEqual(counts, { pending: 0, processing: 0, completed: 25, invalid: 25, failed: 25 });
});

test('A hundred notifications reach the workers as two', async () => {
  let receivedCount = 0;
  const unlisten = await database.listen(QUEUE_CHANNEL, () => void (receivedCount += 1));
  const jobNotifier = createJobNotifier({ db, onError, intervalMs: 50 });
  jobNotifier.send();
  await tick();
  for (let index = 1; index < 100; index += 1) jobNotifier.send();
  await until('the first notification and the one after the interval', () => receivedCount === 2);
  jobNotifier.send();
  await until('the next notification', () => receivedCount === 3);
  await jobNotifier.close();
  await unlisten();
  assert.equal(receivedCount, 3);
});

test('A failed notification is logged and has no effect', async () => {
  const closedDatabase = await connect<Tables>({});
  await closedDatabase.close();
  const errors: unknown[] = [];
  const jobNotifier = createJobNotifier({
    db: closedDatabase.db,
    onError: (error) => errors.push(error),
  });
  jobNotifier.send();
  await jobNotifier.close();
  assert.equal(errors.length, 1);
});

test('Each payload wakes an idle worker of another process', async (t) => {
  // The poll timer never fires, so only notifications can wake the worker.
  const { setTimeout: originalSetTimeout } = globalThis;
  let pollCount = 0;
  const withoutPoll = (work: () => void, ms?: number) => {
    if (ms === POLL_MS) pollCount += 1;
    return originalSetTimeout(ms === POLL_MS ? () => undefined : work, ms);
  };
  t.mock.method(globalThis, 'setTimeout', Object.assign(withoutPoll, originalSetTimeout));
  // On PostgreSQL the worker has its own connections, as in another process.
  const worker = await startWorker(
    {
      DATA_DIR: await openFolder(),
      ...MINIMAL_ENV,
      ...(database.url !== undefined && { DATABASE_URL: database.url }),
    },
    { log, ...(database.url === undefined && { database }) },
  );
  await using resources = new AsyncDisposableStack();
  resources.defer(worker.close);
  await using collector = await startCollector(database, { COLLECTOR_WORKER: 'false' });
  await until('the worker to be idle', () => pollCount > 0);
  for (let index = 0; index < 10; index += 1) {
    const { status, json } = await collector.post('/api/v1/ingest', createPayload());
    assert.equal(status, 202);
    const { raw_id: id } = json<{ raw_id: number }>();
    await waitUntilCompleted(db, id);
  }
});
