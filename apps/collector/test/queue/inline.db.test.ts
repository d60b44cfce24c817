import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { Registry } from 'prom-client';
import type { StageRecord } from '../../src/tables.ts';
import { createMetrics } from '../../src/metrics.ts';
import { insertRaws } from '../../src/ingest/store.ts';
import { createInlineJobs, type InlineJobs } from '../../src/queue/inline.ts';
import type { FinalJobOutcome } from '../../src/queue/job-types.ts';
import { rescueJobs } from '../../src/queue/job-writes.ts';
import type { ProcessJob } from '../../src/queue/job-types.ts';
import { until } from '@oselya/testing';
import { openDatabase, rawRecord, payloadOf, log } from '../support/pipeline.ts';

const database = await openDatabase();
const { db } = database;
const completed: FinalJobOutcome = {
  status: 'completed',
  error: null,
  stages: [],
  listingId: null,
};

const opened: InlineJobs<string>[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((jobs) => jobs.close({ timeoutMs: 0 })));
});

function open(process: ProcessJob<string>, leaseMs = 60_000): InlineJobs<string> {
  const metrics = createMetrics(new Registry());
  const jobs = createInlineJobs({ db, process, metrics, log, leaseMs });
  opened.push(jobs);
  return jobs;
}

/** Claims a payload with images as the route of the form does. */
async function claim({ inline = true, leaseMs = 60_000, uploads = true } = {}) {
  const { source_slug: sourceSlug, external_id: externalId, ...rest } = payloadOf();
  const raw = {
    source_slug: sourceSlug,
    external_id: externalId,
    payload: JSON.stringify(rest),
    content_hash: externalId,
    claim: { worker: 'test', leaseMs, hasUploads: uploads },
  };
  const rawId = (await insertRaws(db, [raw])).get(0)?.id ?? 0;
  if (!inline) await db.updateTable('raw_data').set({ inline }).where('id', '=', rawId).execute();
  return { rawId, attempt: 1, sourceSlug, externalId, contentHash: externalId };
}

/** A job that runs until it is aborted. */
const endless: ProcessJob<string> = (_job, { signal }) => {
  const { promise, reject } = Promise.withResolvers<never>();
  signal.addEventListener('abort', () => reject(signal.reason));
  return promise;
};

test('A job runs with its input, and its outcome is stored', async () => {
  const job = await claim();
  const seen: unknown[] = [];
  const jobs = open(async (_job, { input }) => {
    seen.push(input);
    return completed;
  });
  assert.equal(await jobs.run(job, { input: 'images' }), 'completed');
  assert.deepEqual(seen, ['images']);
  const { status, inline } = await rawRecord(db, job.rawId);
  assert.deepEqual([status, inline], ['completed', false], 'its images are stored by now');
});

test('The lease of a running job is renewed', async () => {
  const job = await claim({ leaseMs: 300 });
  const first = (await rawRecord(db, job.rawId)).lease_expires_at;
  const stage: StageRecord = {
    stage: 'load',
    outcome: 'done',
    started_at: '2026-05-04T09:00:00Z',
    duration_ms: 3,
  };
  const working: ProcessJob<string> = (given, options) => {
    options.stages?.push(stage);
    return endless(given, options);
  };
  const running = open(working, 300).run(job, {});
  await until('a renewed lease', async () => {
    const { lease_expires_at: lease } = await rawRecord(db, job.rawId);
    return lease !== null && first !== null && lease > first;
  });
  assert.deepEqual(
    (await rawRecord(db, job.rawId)).stages,
    [stage],
    'and says how far it has come',
  );
  await opened[0]?.close({ timeoutMs: 0 });
  assert.equal(await running, 'returned');
});

test('An expired lease fails a job with lost images and returns other jobs', async () => {
  const inline = await claim();
  const others = [await claim({ inline: false }), await claim({ uploads: false })];
  await db
    .updateTable('raw_data')
    .set({ lease_expires_at: new Date(Date.now() - 1000) })
    .where(
      'id',
      'in',
      [inline, ...others].map(({ rawId }) => rawId),
    )
    .execute();
  await rescueJobs(db, 3);
  const failed = await rawRecord(db, inline.rawId);
  assert.deepEqual([failed.status, failed.error?.code], ['failed', 'lease_lost']);
  assert.match(failed.error?.message ?? '', /Send it again/);
  for (const { rawId } of others) {
    const raw = await rawRecord(db, rawId);
    assert.deepEqual([raw.status, raw.error, raw.inline], ['pending', null, false]);
  }
});

test('Closing waits for jobs, and slow jobs fail or return to the queue', async () => {
  const { promise: wait, resolve: finish } = Promise.withResolvers<void>();
  const [patient, slow] = [await claim(), await claim()];
  const waiting = open(async () => {
    await wait;
    return completed;
  });
  const done = waiting.run(patient, {});
  const closing = waiting.close({ timeoutMs: 20_000 });
  assert.equal(await waiting.run(slow, {}), 'lost', 'nothing new is begun');
  finish();
  await closing;
  assert.equal(await done, 'completed');

  const [inline, other] = [await claim(), await claim({ inline: false })];
  const jobs = open(endless);
  const ends = [jobs.run(inline, {}), jobs.run(other, {})];
  await jobs.close({ timeoutMs: 0 });
  assert.deepEqual(await Promise.all(ends), ['returned', 'returned']);
  for (const { rawId } of [slow, inline]) {
    const { status, error } = await rawRecord(db, rawId);
    assert.deepEqual([status, error?.code], ['failed', 'interrupted']);
  }
  const { status, attempts } = await rawRecord(db, other.rawId);
  assert.deepEqual([status, attempts], ['pending', 0]);
});

test('The caller can abort a job, and a postponed job fails', async () => {
  const [givenUp, postponed] = [await claim(), await claim()];
  const abort = new AbortController();
  const running = open(endless).run(givenUp, { signal: abort.signal });
  abort.abort(new Error('Ctrl-C'));
  assert.equal(await running, 'returned');
  assert.equal(await open(async () => ({ status: 'postponed' })).run(postponed, {}), 'postponed');
  for (const { rawId } of [givenUp, postponed]) {
    assert.equal((await rawRecord(db, rawId)).error?.code, 'interrupted');
  }
});
