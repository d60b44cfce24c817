import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import type { Job } from '../../src/queue/job.ts';
import { mostOfOne } from '../../src/queue/room.ts';
import { store } from '../support/database.ts';
import { payloadOf } from '../support/payload.ts';
import { until } from '../support/until.ts';
import { completed, LONG, openQueue } from './harness.ts';

const { db, empty, reach, start } = await openQueue();

/** Pending payloads of a source, past everything that an ingest does. */
async function fill(source: string, count: number): Promise<void> {
  await sql`insert into sources (slug) values (${source}) on conflict do nothing`.execute(db);
  await sql`insert into raw_data (source_slug, external_id, payload, content_hash)
    select ${source}, n::text, '{}', '' from generate_series(1, ${count}::integer) as n`.execute(
    db,
  );
}

/** Jobs that take until a test ends them. */
function heldJobs() {
  const begun: (Job & { end: () => void })[] = [];
  const inProgress = new Map<string, number>();
  /** The most that a source had in progress at once. */
  const most = new Map<string, number>();
  return {
    begun,
    most,
    ofSource: (source: string) => begun.filter(({ sourceSlug }) => sourceSlug === source),
    process: async (job: Job) => {
      const { sourceSlug } = job;
      const { promise, resolve: end } = Promise.withResolvers<void>();
      const jobs = (inProgress.get(sourceSlug) ?? 0) + 1;
      inProgress.set(sourceSlug, jobs);
      most.set(sourceSlug, Math.max(jobs, most.get(sourceSlug) ?? 0));
      begun.push({ ...job, end });
      await promise;
      inProgress.set(sourceSlug, (inProgress.get(sourceSlug) ?? 0) - 1);
      return completed;
    },
  };
}

test('while 100,000 jobs of one source are slow, the single one of another is begun before any has ended', async () => {
  await fill('small', 1);
  await sql`update raw_data set status = 'completed'`.execute(db);
  await fill('large', 100_000);
  const held = heldJobs();
  const worker = start(held.process);
  await until('the large one to have what it may', () => held.begun.length === 3);
  const single = await store(db, payloadOf({ source_slug: 'small', external_id: 'single' }));
  worker.notify();
  await until('the single one', () => held.begun.length === 4);
  assert.equal(held.begun[3]?.rawId, single);
  // Now all slots are taken. As one is free, the source that has nothing in progress comes first.
  const other = await store(db, payloadOf({ source_slug: 'small', external_id: 'other' }));
  const third = await store(db, payloadOf({ source_slug: 'third' }));
  held.begun[0]?.end();
  await until('the next', () => held.begun.length >= 5);
  assert.equal(held.begun[4]?.rawId, third);
  held.begun[3]?.end();
  await until('the one after it', () => held.begun.length >= 6);
  assert.equal(held.begun[5]?.rawId, other);
  assert.equal(held.most.get('large'), 3);
  const stopping = worker.stop(LONG);
  for (const { end } of held.begun) end();
  await stopping;
  await empty();
});

test('a source that has all slots of other processes does not come before one that has none', async () => {
  await fill('large', 1000);
  await fill('small', 10);
  // As three other processes would hold them.
  await sql`update raw_data set status = 'processing', claimed_by = 'elsewhere', attempts = 1,
    lease_expires_at = now() + interval '1 hour'
    where id in (select id from raw_data where source_slug = 'large' order by id limit 9)`.execute(
    db,
  );
  const held = heldJobs();
  const worker = start(held.process);
  await until('four jobs', () => held.begun.length === 4);
  assert.deepEqual([held.ofSource('small').length, held.ofSource('large').length], [3, 1]);
  const stopping = worker.stop(LONG);
  for (const { end } of held.begun) end();
  await stopping;
  await empty();
});

test('a source that is the only one has all slots', async () => {
  await fill('large', 8);
  const held = heldJobs();
  const worker = start(held.process);
  await until('all slots to be taken', () => held.begun.length === 4);
  for (const { end } of held.begun) end();
  await until('all to be begun', () => held.begun.length === 8);
  for (const { end } of held.begun) end();
  await reach({ completed: 8 });
  await worker.stop(LONG);
  await empty();
});

test('quick jobs of one source are claimed ahead, and run in all slots but the reserve', async () => {
  await fill('small', 1);
  await fill('large', 500);
  const most = { now: 0, ever: 0 };
  const worker = start(
    async () => {
      most.now += 1;
      most.ever = Math.max(most.ever, most.now);
      await Promise.resolve();
      most.now -= 1;
      return completed;
    },
    // Only what is claimed ahead, and at once, can be through in time.
    { pollMs: 60_000 },
  );
  await reach({ completed: 501 });
  await worker.stop(LONG);
  assert.ok(most.ever <= 4);
  await empty();
});

test('a quarter of the slots is reserved, one at least; a single slot is not', () => {
  const slots = [1, 2, 3, 4, 7, 8, 16, 100];
  assert.deepEqual(slots.map(mostOfOne), [1, 1, 2, 3, 6, 6, 12, 75]);
});
