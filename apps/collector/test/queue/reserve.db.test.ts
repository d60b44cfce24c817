import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { mostOfOne } from '../../src/queue/room.ts';
import { store } from '../support/database.ts';
import { payloadOf } from '../support/payload.ts';
import { until } from '../support/until.ts';
import { watchedDatabase } from '../support/watched-database.ts';
import { completed, fill, heldJobs, LONG, openQueue } from './harness.ts';

const { db, empty, reach, start } = await openQueue();

test('while 100,000 jobs of one source are slow, the single one of another is begun before any has ended', async () => {
  await fill(db, 'small', 1);
  await sql`update raw_data set status = 'completed'`.execute(db);
  await fill(db, 'large', 100_000);
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
  const stopping = worker.stop(LONG);
  held.endAll();
  await stopping;
  await empty();
});

test('a source that has all slots of other processes does not come before one that has none', async () => {
  await fill(db, 'large', 1000);
  await fill(db, 'small', 10);
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
  held.endAll();
  await stopping;
  await empty();
});

test('a source that is the only one has all slots', async () => {
  await fill(db, 'large', 8);
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
  await fill(db, 'small', 1);
  await sql`update raw_data set status = 'completed'`.execute(db);
  await fill(db, 'large', 500);
  let isAhead = false;
  const watched = watchedDatabase(db, {
    after(text, { rows }) {
      if (text.includes('with recursive')) isAhead ||= rows.length > 4;
    },
  });
  const held = heldJobs();
  // They end at once until more have been claimed than there are slots.
  const worker = start(async (job) => (isAhead ? held.process(job) : completed), {
    db: watched,
    pollMs: 60_000,
    maxWaitMs: 60_000,
  });
  await until('more to be claimed than there are slots', () => isAhead);
  await until('all slots but one to be taken', () => held.begun.length === 3);
  const single = await store(db, payloadOf({ source_slug: 'small', external_id: 'single' }));
  worker.notify();
  await until('the one that is left', () => held.begun.length === 4);
  assert.equal(held.begun[3]?.rawId, single, 'those that were claimed ahead wait');
  held.endAll();
  await reach({ completed: 502 });
  await worker.stop(LONG);
  await empty();
});

test('a quarter of the slots is reserved, one at least; a single slot is not', () => {
  const slots = [1, 2, 3, 4, 7, 8, 16, 100];
  assert.deepEqual(slots.map(mostOfOne), [1, 1, 2, 3, 6, 6, 12, 75]);
});
