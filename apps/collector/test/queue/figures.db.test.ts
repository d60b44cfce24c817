import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { atEnd, until } from '@oselya/testing';
import { sql } from 'kysely';
import { Registry } from 'prom-client';
import { claimJobs } from '../../src/queue/claim.ts';
import { createQueueFigures, registerQueueMetrics } from '../../src/queue/figures.ts';
import { finishJobs, returnJobs } from '../../src/queue/job-writes.ts';
import { requeuePayload } from '../../src/queue/retry.ts';
import { claimedForReprocessing } from '../../src/queue/transitions.ts';
import { openDatabase, store, payloadOf } from '../support/pipeline.ts';

const { db } = await openDatabase();
const figures = createQueueFigures({ db, onError: assert.ifError });
atEnd(figures.close);
const { read } = figures;

const age = (rawId: number, seconds: number) =>
  sql`update raw_data set created_at = now() - ${seconds} * interval '1 second'
    where id = ${rawId}`.execute(db);

async function oldest(): Promise<number | null> {
  const { oldest_pending_seconds: seconds } = await read();
  return seconds === null ? null : Math.round(seconds);
}

afterEach(async () => {
  await db.deleteFrom('raw_data').execute();
});

test('Each payload is counted once', async () => {
  await Promise.all(Array.from({ length: 4 }, () => store(db, payloadOf())));
  for (let nth = 0; nth < 3; nth += 1) await store(db, payloadOf({ external_id: 'same' }));
  await sql`insert into raw_data (source_slug, external_id, payload, content_hash, status, updated_at)
    select 'doshka', n::text, '{}', '', status, now() - minutes * interval '1 minute'
    from (values ('completed', 1), ('completed', 9), ('invalid', 4), ('failed', 6))
      as ended (status, minutes), generate_series(1, 10) as n`.execute(db);
  await claimJobs(db, { worker: 'test', leaseMs: 60_000, count: 2 });
  const { counts, finished_per_minute: finished } = await read();
  assert.deepEqual(counts, { pending: 5, processing: 2, completed: 20, invalid: 10, failed: 10 });
  assert.equal(finished, 4);
});

test('The oldest pending payload is found in any source and behind its listing', async () => {
  assert.equal(await oldest(), null);
  const first = await store(db, payloadOf({ external_id: 'same' }));
  await age(first, 900);
  assert.equal(await oldest(), 900);
  await claimJobs(db, { worker: 'test', leaseMs: 60_000, count: 1 });
  assert.equal(await oldest(), null, 'it is being processed');
  const behind = await store(db, payloadOf({ external_id: 'same' }));
  await age(behind, 300);
  assert.equal(await oldest(), 300);
  for (const [source_slug, seconds] of [
    ['a', 100],
    ['b', 400],
    ['c', 200],
  ] as const) {
    await age(await store(db, payloadOf({ source_slug })), seconds);
  }
  assert.equal(await oldest(), 400);
});

test('The wait of a retried or reprocessed payload starts at the retry', async () => {
  const rawId = await store(db, payloadOf());
  await age(rawId, 900);
  const [job] = await claimJobs(db, { worker: 'test', leaseMs: 60_000, count: 1 });
  assert.ok(job);
  const result = { status: 'failed', error: null, stages: [], listingId: null } as const;
  await finishJobs(db, [{ job, result }]);
  assert.equal(await requeuePayload(db, rawId), true);
  assert.ok(((await oldest()) ?? Infinity) < 600, 'put back');
  await sql`update raw_data set queued_at = now() - interval '700 seconds'`.execute(db);
  assert.equal(await oldest(), 700);
  await sql`update raw_data set status = 'completed'`.execute(db);
  await sql`update raw_data set ${claimedForReprocessing({ worker: 'test', leaseMs: 60_000 })}`.execute(
    db,
  );
  await returnJobs(db, [{ rawId, attempt: 2 }]);
  assert.ok(((await oldest()) ?? Infinity) < 600, 'read again');
});

/** Stores ended payloads, several of them with equal times. */
async function addEnded(status: string, count: number): Promise<void> {
  await sql`insert into sources (slug) values ('doshka') on conflict do nothing`.execute(db);
  await sql`insert into raw_data (source_slug, external_id, payload, content_hash, status, updated_at)
    select 'doshka', n::text, '{}', '', ${status}, now() - n / 4 * interval '1 hour'
    from generate_series(1, ${count}::integer) as n`.execute(db);
}

test('Large counts run in the background', async () => {
  const ENDED = ['completed', 'invalid', 'failed'] as const;
  for (const status of ENDED) await addEnded(status, 25);
  const many = createQueueFigures({ db, maxCounted: 10, onError: assert.ifError });
  const first = await many.read();
  assert.deepEqual([first.counts.completed, first.ended_age_seconds], [null, null]);
  const counts = await until('the counts', async () => {
    const { counts: found } = await many.read();
    return ENDED.every((status) => found[status] !== null) && found;
  });
  await many.close();
  assert.deepEqual(counts, { pending: 0, processing: 0, completed: 25, invalid: 25, failed: 25 });
});

test('The gauges count the payloads by status', async () => {
  await store(db, payloadOf());
  const registry = new Registry();
  registerQueueMetrics(registry, { readQueue: read, onError: assert.ifError });
  assert.match(await registry.metrics(), /collector_queue_jobs\{status="pending"\} 1\n/);
});
