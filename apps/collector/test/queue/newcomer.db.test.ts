import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { store } from '../support/database.ts';
import { payloadOf } from '../support/payload.ts';
import { until } from '../support/until.ts';
import { watchedDatabase } from '../support/watched-database.ts';
import { completed, fill, heldJobs, LONG, openQueue } from './harness.ts';

const { db, empty, reach, start } = await openQueue();

const single = (source: string) => store(db, payloadOf({ source_slug: source }));

/** A database that counts how often somebody looks for a claim. */
function countClaims() {
  const count = { claims: 0 };
  const watched = watchedDatabase(db, {
    after(text) {
      if (text.includes('with recursive')) count.claims += 1;
    },
  });
  return { count, watched };
}

test('while 100,000 jobs of one source are slow, the single one of a new source is begun before any has ended', async () => {
  await fill(db, 'large', 100_000);
  const held = heldJobs();
  const { count, watched } = countClaims();
  const worker = start(held.process, { db: watched });
  await until('the large one to have all slots', () => held.begun.length === 4);
  const first = await single('first');
  worker.notify();
  await until('the single one', () => held.begun.length === 5);
  assert.equal(held.begun[4]?.rawId, first);

  // Now the one place beyond the slots is taken too: who comes has the next one, whoever leaves it.
  const others = [await single('second'), await single('third')];
  const { claims } = count;
  worker.notify();
  held.begun[0]?.end();
  await until('the next', () => held.begun.length >= 6);
  held.begun[4]?.end();
  await until('the one after it', () => held.begun.length >= 7);
  assert.deepEqual(
    held.begun.slice(5).map(({ rawId }) => rawId),
    others,
  );
  assert.ok(count.claims > claims);
  const stopping = worker.stop(LONG);
  held.endAll();
  await stopping;
  await reach({ completed: 7 });
  // To delete so many takes longer than all else here, and leaves them in the way.
  await sql`truncate raw_data cascade`.execute(db);
});

test('newcomers are begun once each, by whichever worker, and no worker has more than a quarter beyond its slots', async () => {
  await fill(db, 'large', 1000);
  const workers = [heldJobs(), heldJobs()].map((held) => ({ held, worker: start(held.process) }));
  const most = () => workers.map(({ held }) => held.begun.length);
  await until('all slots to be taken', () => most().every((jobs) => jobs === 4));
  const newcomers = await Promise.all(['a', 'b', 'c'].map(single));
  await until('two of them', () => most().every((jobs) => jobs === 5));
  const begun = () => workers.flatMap(({ held }) => held.begun.map(({ rawId }) => rawId));
  const isNewcomer = (id: number) => newcomers.includes(id);
  assert.equal(new Set(begun().filter(isNewcomer)).size, 2);
  workers[1]?.held.begun[0]?.end();
  await until('the third', () => begun().filter(isNewcomer).length === 3);
  assert.deepEqual(most(), [5, 6]);
  for (const { held } of workers) held.endAll();
  await Promise.all(workers.map(({ worker }) => worker.stop(LONG)));
  assert.equal(new Set(begun()).size, begun().length);
  await empty();
});

test('a worker of one slot has one job, and the next is that of a new source', async () => {
  await fill(db, 'large', 1000);
  const held = heldJobs();
  const worker = start(held.process, { slots: 1, maxWaitMs: 50 });
  await until('a job', () => held.begun.length === 1);
  const small = await single('small');
  for (let nth = 1; nth < 4; nth += 1) {
    worker.notify();
    await reach({ processing: 1 });
    assert.equal(held.begun.length, nth);
    held.begun[nth - 1]?.end();
    await until('the next one', () => held.begun.length > nth);
  }
  assert.equal(held.begun[1]?.rawId, small);
  const stopping = worker.stop(LONG);
  held.endAll();
  await stopping;
  await empty();
});

test('where one source has all of many processes of one slot, a new one is begun beyond one of them', async () => {
  await fill(db, 'large', 1000);
  const workers = [heldJobs(), heldJobs(), heldJobs()].map((held) => ({
    held,
    worker: start(held.process, { slots: 1 }),
  }));
  const begun = () => workers.flatMap(({ held }) => held.begun);
  await until('all slots to be taken', () => begun().length === 3);
  const newcomer = await single('newcomer');
  await until('it', () => begun().length === 4);
  assert.ok(begun().some(({ rawId }) => rawId === newcomer));
  // Each has at most one beyond its slot, and of a source that has something in progress none.
  await single('newcomer');
  await Promise.all(['a', 'b', 'c'].map(single));
  await until('two more', () => begun().length === 6);
  assert.deepEqual(
    workers.map(({ held }) => held.begun.length),
    [2, 2, 2],
  );
  const sources = begun().map(({ sourceSlug }) => sourceSlug);
  assert.equal(new Set(sources).size, 4);
  for (const { held } of workers) held.endAll();
  await Promise.all(workers.map(({ worker }) => worker.stop(LONG)));
  await empty();
});

test('sources that have a slot each keep to the slots', async () => {
  for (const source of ['a', 'b']) await fill(db, source, 10);
  const held = heldJobs();
  const { count, watched } = countClaims();
  const worker = start(held.process, { slots: 2, db: watched });
  await until('both slots to be taken', () => held.begun.length === 2);
  const third = await single('third');
  const { claims } = count;
  await until('three looks', () => count.claims >= claims + 3);
  assert.equal(held.begun.length, 2, 'nobody has more than one job');
  held.begun[0]?.end();
  await until('the next', () => held.begun.length === 3);
  assert.equal(held.begun[2]?.rawId, third);
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
  assert.deepEqual([held.ofSource('small').length, held.ofSource('large').length], [4, 0]);
  const stopping = worker.stop(LONG);
  held.endAll();
  await stopping;
  await empty();
});

test('what was claimed ahead of one source does not keep a new one waiting', async () => {
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
    maxWaitMs: 60_000,
  });
  await until('more to be claimed than there are slots', () => isAhead);
  await until('all slots to be taken', () => held.begun.length === 4);
  const small = await single('small');
  worker.notify();
  await until('the one beyond them', () => held.begun.length === 5);
  assert.equal(held.begun[4]?.rawId, small);
  held.endAll();
  await reach({ completed: 501 });
  await worker.stop(LONG);
  await empty();
});

test('while the slots are drained for a last attempt no new source is begun either', async () => {
  await fill(db, 'large', 20);
  const held = heldJobs();
  let isDraining = false;
  const watched = watchedDatabase(db, {
    after(text, { rows }) {
      if (text.includes('claimed_by is null')) isDraining = rows.length > 0;
    },
  });
  const worker = start(held.process, { db: watched });
  await until('all slots to be taken', () => held.begun.length === 4);
  const last = await single('lost');
  await sql`update raw_data set attempts = 2 where id = ${last}`.execute(db);
  held.begun[0]?.end();
  await until('it to drain', () => isDraining);
  const small = await single('small');
  worker.notify();
  for (const nth of [1, 2, 3]) held.begun[nth]?.end();
  await until('the next', () => held.begun.length > 4);
  assert.deepEqual(
    held.begun.slice(4).map(({ rawId }) => rawId),
    [last],
  );
  worker.notify();
  held.begun[4]?.end();
  await until('the others', () => held.begun.some(({ rawId }) => rawId === small));
  const stopping = worker.stop(LONG);
  held.endAll();
  await stopping;
  await empty();
});
