import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { Registry } from 'prom-client';
import { createMetrics } from '../../../src/metrics.ts';
import type { Ask, AddressState } from '../../../src/operations/archive/ask.ts';
import { createArchiveCheck } from '../../../src/operations/archive/check.ts';
import { openDatabase } from '../../support/database.ts';
import { log } from '../../support/pipeline.ts';
import { until } from '../../support/until.ts';

const database = await openDatabase();
const { db } = database;

const present: AddressState = { state: 'present', status: 200 };
const gone: AddressState = { state: 'gone', status: 404 };
const unreachable: AddressState = { state: 'unreachable', status: null };

/** A source of its own with so many listings at an address each; gives their ids. */
async function listings(source: string, count = 1): Promise<number[]> {
  await sql`insert into sources (slug) values (${source})`.execute(db);
  const { rows } = await sql<{ id: number }>`
    with listing as (
      insert into property_listings (source_slug, external_id, url, description, search_text)
      select ${source}, n::text, 'https://' || ${source}::text || '.test/' || n, 'Квартира', ''
      from generate_series(1, ${count}) as n
      returning id, source_slug, external_id),
    payload as (
      insert into listing_payloads (source_slug, external_id, raw_id)
      select source_slug, external_id, 1 from listing)
    select id from listing order by id`.execute(db);
  return rows.map(({ id }) => id);
}

/** What a payload of each listing of a source leaves behind, whatever it says. */
async function anotherPayload(source: string): Promise<void> {
  await sql`update listing_payloads set raw_id = raw_id + 1 where source_slug = ${source}`.execute(
    db,
  );
}

function listingOf(id: number) {
  return db
    .selectFrom('property_listings')
    .selectAll()
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
}

function checkOf(id: number) {
  return db
    .selectFrom('listing_checks')
    .selectAll()
    .where('listing_id', '=', id)
    .executeTakeFirst();
}

/** Moves what is known of a listing's address into the past. */
async function hoursLater(id: number, hours: number): Promise<void> {
  await sql`update listing_checks set
      gone_since = gone_since - ${hours} * interval '1 hour',
      checked_at = checked_at - ${hours} * interval '1 hour'
    where listing_id = ${id}`.execute(db);
}

/** The check of one source, whose addresses answer what the test says, with what was asked. */
function checkOfSource(source: string, answer: Ask, options: { deadlineMs?: number } = {}) {
  const metrics = createMetrics(new Registry());
  const asked: string[] = [];
  const check = createArchiveCheck({
    db,
    ask: (url, signal) => {
      asked.push(url);
      return answer(url, signal);
    },
    metrics,
    log,
    limits: { parallel: 4, perHost: 4, pauseMs: 0 },
    ...options,
  });
  const run = (
    more: { limit?: number; minIntervalSeconds?: number; notWithinHours?: number } = {},
  ) => check({ limit: 100, minIntervalSeconds: 3600, source, ...more });
  return { run, asked, metrics };
}

const always =
  (verdict: AddressState): Ask =>
  () =>
    Promise.resolve(verdict);

test('a listing is archived when it is gone on two checks an hour apart', async () => {
  const [id = 0] = await listings('gone');
  const { run, metrics } = checkOfSource('gone', always(gone));
  const nothing = { checked: 1, archived: 0, unreachable: 0 };
  assert.deepEqual(await run(), nothing);
  assert.deepEqual(await run(), nothing, 'a moment later is not an hour later');
  await hoursLater(id, 0.9);
  assert.deepEqual(await run(), nothing);
  await hoursLater(id, 0.2);
  assert.deepEqual(await run(), { checked: 1, archived: 1, unreachable: 0 });
  const { archived_at: archivedAt, updated_at: updatedAt } = await listingOf(id);
  assert.ok(archivedAt);
  assert.deepEqual(updatedAt, archivedAt);
  assert.deepEqual(await run(), { checked: 0, archived: 0, unreachable: 0 });
  const { values } = await metrics.archiveChecks.get();
  assert.deepEqual(
    values.map(({ labels, value }) => [labels.outcome, value]),
    [
      ['gone', 3],
      ['archived', 1],
    ],
  );
});

test('one check never archives, whatever the interval', async () => {
  const [id = 0] = await listings('once');
  const { run } = checkOfSource('once', always(gone));
  assert.equal((await run({ minIntervalSeconds: 0 })).archived, 0);
  assert.equal((await listingOf(id)).archived_at, null);
  assert.equal((await run({ minIntervalSeconds: 0 })).archived, 1);
});

test('another answer begins anew, and none at all changes nothing', async () => {
  const [id = 0] = await listings('changing');
  let answer: AddressState = gone;
  const { run } = checkOfSource('changing', () => Promise.resolve(answer));
  const archived = async (verdict: AddressState) => {
    answer = verdict;
    const result = await run();
    await hoursLater(id, 2);
    return result.archived;
  };
  assert.equal(await archived(gone), 0);
  assert.equal(await archived(present), 0);
  assert.equal((await checkOf(id))?.gone_since, null);
  assert.equal(await archived(gone), 0);
  const since = (await checkOf(id))?.gone_since;
  answer = unreachable;
  assert.deepEqual(await run(), { checked: 1, archived: 0, unreachable: 1 });
  assert.deepEqual((await checkOf(id))?.gone_since, since);
  assert.equal(await archived(gone), 1);
});

test('a payload that comes between two checks is a sign of life', async () => {
  const [id = 0] = await listings('alive');
  const { run } = checkOfSource('alive', always(gone));
  await run();
  await hoursLater(id, 2);
  await anotherPayload('alive');
  assert.equal((await run()).archived, 0);
  await hoursLater(id, 2);
  assert.equal((await run()).archived, 1);
});

test('a payload that comes while the address is asked keeps its listing', async () => {
  const [id = 0] = await listings('racing');
  const { run } = checkOfSource('racing', async () => {
    await anotherPayload('racing');
    return gone;
  });
  for (let checks = 0; checks < 3; checks += 1) {
    assert.deepEqual(await run(), { checked: 1, archived: 0, unreachable: 0 });
    await hoursLater(id, 2);
  }
  assert.equal((await listingOf(id)).archived_at, null);
});

test('those that were never asked come first, then those asked longest ago', async () => {
  const [a = 0, b = 0, c = 0] = await listings('order', 3);
  const { run, asked } = checkOfSource('order', always(present));
  await run({ limit: 1 });
  await run({ limit: 1 });
  await hoursLater(b, 5);
  await run({ limit: 2 });
  await run({ limit: 1 });
  assert.deepEqual(
    asked.map((url) => url.at(-1)),
    ['1', '2', '3', '2', '1'],
  );
  assert.ok([a, b, c].every((id) => id > 0));
});

test('archived listings and those without an address are not asked', async () => {
  const [archived = 0, bare = 0] = await listings('none', 2);
  await sql`update property_listings set archived_at = now() where id = ${archived}`.execute(db);
  await sql`update property_listings set url = null where id = ${bare}`.execute(db);
  const { run } = checkOfSource('none', always(gone));
  assert.deepEqual(await run(), { checked: 0, archived: 0, unreachable: 0 });
});

test('an address is left alone for as many hours as the run says', async () => {
  const [id = 0] = await listings('due');
  const { run, asked } = checkOfSource('due', always(present));
  await run({ notWithinHours: 24 });
  assert.equal(asked.length, 0, 'the listing has just come into being');
  await sql`update property_listings set created_at = now() - interval '25 hours'
    where id = ${id}`.execute(db);
  await run({ notWithinHours: 24 });
  await hoursLater(id, 23);
  await run({ notWithinHours: 24 });
  assert.equal(asked.length, 1);
  await hoursLater(id, 2);
  await run({ notWithinHours: 24 });
  assert.equal(asked.length, 2);
});

test('runs at the same time ask each address once, and hold no connection meanwhile', async () => {
  await listings('together', 60);
  const running = Promise.withResolvers<void>();
  const { run, asked } = checkOfSource('together', async () => {
    await running.promise;
    return present;
  });
  const runs = Array.from({ length: 4 }, () => run({ limit: 60 }));
  // Whichever run claims what: addresses answer only after all are claimed.
  await until('all to be claimed', async () => (await claimed('together')) === 60);
  await until('no connection to be held', () => {
    return database.pool.totalCount === database.pool.idleCount;
  });
  running.resolve();
  const results = await Promise.all(runs);
  assert.equal(
    results.reduce((sum, { checked }) => sum + checked, 0),
    60,
  );
  assert.equal(new Set(asked).size, 60);
  assert.equal(asked.length, 60);
});

async function claimed(source: string): Promise<number> {
  const { rows } = await sql<{ n: number }>`select count(*)::integer as n from listing_checks
    join property_listings on id = listing_id
    where source_slug = ${source} and claimed_until > now()`.execute(db);
  return rows[0]?.n ?? 0;
}

test('what a run did not come to is left as it was, for the next', async () => {
  const [id = 0] = await listings('late', 6);
  const { run } = checkOfSource('late', hang, { deadlineMs: 20 });
  assert.deepEqual(await run(), { checked: 0, archived: 0, unreachable: 0 });
  const check = await checkOf(id);
  assert.equal(check?.claimed_until, null);
  assert.equal(check?.checked_at, null);
  const next = checkOfSource('late', always(present));
  assert.equal((await next.run()).checked, 6);
});

/** A site that does not answer before the run ends. */
const hang: Ask = (_url, signal) =>
  new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(new Error('ended')), { once: true });
  });

test('what a killed run had claimed is asked by a later one', async () => {
  const [id = 0] = await listings('killed');
  await db
    .insertInto('listing_checks')
    .values({ listing_id: id, claimed_until: sql<Date>`now() + interval '1 minute'` })
    .execute();
  const { run } = checkOfSource('killed', always(present));
  assert.equal((await run()).checked, 0);
  await sql`update listing_checks set claimed_until = now() - interval '1 second'
    where listing_id = ${id}`.execute(db);
  assert.equal((await run()).checked, 1);
});

test('a fault of ours fails the run, and the others are asked all the same', async () => {
  await listings('faulty', 5);
  const { run, asked } = checkOfSource('faulty', (url) =>
    url.endsWith('/2') ? Promise.reject(new Error('a fault')) : Promise.resolve(present),
  );
  await assert.rejects(run(), /a fault/);
  assert.equal(asked.length, 5);
});
