import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import pg from 'pg';
import { createIngest } from '../../src/ingest/service.ts';
import { startCollector } from '../support/collector.ts';
import { openDatabase } from '../support/database.ts';
import { payloadOf } from '../support/payload.ts';
import { log } from '../support/pipeline.ts';
import { until } from '../support/until.ts';

const database = await openDatabase();
const { db } = database;
let told = 0;
const ingest = createIngest({ db, onAccepted: () => (told += 1), log });
const accept = async (...request: Parameters<typeof ingest.accept>) =>
  (await ingest.accept(...request)).rawId;

async function stored(source: string) {
  return db
    .selectFrom('raw_data')
    .select(['id', 'external_id', 'waits', 'payload'])
    .where('source_slug', '=', source)
    .orderBy('id')
    .execute();
}

/** What the checks of values keep away: PostgreSQL has no such character in jsonb. */
const UNSTORABLE = { description: 'a\0' };

const ends = (results: readonly PromiseSettledResult<number>[]) =>
  results.map((result) => (result.status === 'fulfilled' ? 'stored' : 'refused'));

test('payloads that come at one moment share statements, each with its own answer', async () => {
  await sql`create table statements (size integer)`.execute(db);
  await sql`create function note() returns trigger language plpgsql as $$
    begin insert into statements select count(*) from added; return null; end $$`.execute(db);
  await sql`create trigger note after insert on raw_data referencing new table as added
    for each statement execute function note()`.execute(db);
  told = 0;
  const payloads = Array.from({ length: 250 }, (_, n) =>
    payloadOf({ source_slug: `group-${n % 7}`, external_id: `flat-${n}` }),
  );
  const ids = await Promise.all(payloads.map((payload) => accept(payload)));
  await sql`drop trigger note on raw_data`.execute(db);
  const { rows } = await sql<{ size: number }>`select size from statements`.execute(db);
  assert.deepEqual(
    rows.map(({ size }) => size).toSorted((a, b) => a - b),
    [50, 100, 100],
  );
  assert.equal(told, 3);
  for (const [n, id] of ids.entries()) {
    const row = await db
      .selectFrom('raw_data')
      .select('payload')
      .where('id', '=', id)
      .executeTakeFirst();
    assert.deepEqual(row?.payload, payloads[n]);
  }
});

test('a payload that cannot be stored fails alone', async () => {
  const source_slug = 'neighbours';
  const payloads = Array.from({ length: 12 }, (_, n) =>
    payloadOf({ source_slug, ...(n % 4 === 2 ? UNSTORABLE : {}) }),
  );
  const results = await Promise.allSettled(payloads.map((payload) => accept(payload)));
  assert.deepEqual(
    ends(results),
    payloads.map((_, n) => (n % 4 === 2 ? 'refused' : 'stored')),
  );
  assert.deepEqual(
    (await stored(source_slug)).map(({ external_id }) => external_id),
    payloads.filter((_, n) => n % 4 !== 2).map(({ external_id }) => external_id),
    'each once',
  );
});

test('equal idempotency keys within one group', async () => {
  const source_slug = 'keys';
  const payload = payloadOf({ source_slug });
  const before = await accept(payload, 'known');
  const results = await Promise.allSettled([
    accept(payload, 'new'),
    accept(payload, 'new'),
    accept({ ...payload, price: 5 }, 'new'),
    accept(payload, 'known'),
    accept({ ...payload, price: 5 }, 'known'),
    accept(payload),
    accept(payload, 'another'),
    accept({ ...payload, source_slug: 'other-keys', price: 5 }, 'new'),
  ]);
  assert.deepEqual(ends(results), [
    'stored',
    'stored',
    'refused',
    'stored',
    'refused',
    'stored',
    'stored',
    'stored',
  ]);
  const ids = results.map((result) => (result.status === 'fulfilled' ? result.value : undefined));
  assert.equal(ids[0], ids[1]);
  assert.equal(ids[3], before);
  assert.equal(new Set(ids.filter((id) => id !== undefined)).size, 5);
  for (const result of [results[2], results[4]]) {
    assert.equal(result?.status === 'rejected' && result.reason.code, 'idempotency_conflict');
  }
  assert.equal((await stored(source_slug)).length, 4);
});

test('payloads of one listing within a group keep their order, all but the first wait', async () => {
  const payloads = [1, 2, 3].map((price) =>
    payloadOf({ source_slug: 'order', external_id: 'same', price }),
  );
  const ids = await Promise.all(payloads.map((payload) => accept(payload)));
  const rows = await stored('order');
  assert.deepEqual(
    rows.map(({ id, waits, payload }) => [id, waits, payload['price']]),
    ids.map((id, n) => [id, n > 0, n + 1]),
  );
});

test('large payloads go in statements of their own size', async () => {
  const attributes = { text: 'ї'.repeat(30_000) };
  const payloads = Array.from({ length: 90 }, () =>
    payloadOf({ source_slug: 'large', attributes, description: 'х'.repeat(50_000) }),
  );
  const ids = await Promise.all(payloads.map((payload) => accept(payload)));
  assert.equal(new Set(ids).size, 90);
  assert.equal((await stored('large')).length, 90);
});

// Only a server has connections that can be cut.
if (database.url !== undefined) {
  const { url } = database;
  test('connections that are cut while groups are written: 500, and what was accepted is stored', async () => {
    await using collector = await startCollector(database, {
      COLLECTOR_WORKER: 'false',
      COLLECTOR_INGEST_PER_MINUTE: '0',
    });
    const admin = new pg.Client({ connectionString: url });
    await admin.connect();
    const send = (n: number) =>
      collector.post(
        '/api/v1/ingest',
        payloadOf({ source_slug: 'cut', external_id: `flat-${n}` }),
        { 'idempotency-key': `cut-${n}` },
      );
    // The lock holds the groups up, so that they are being written when they are cut.
    await admin.query('begin; lock table raw_data in share mode');
    const waiting = `from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and pid <> pg_backend_pid()`;
    // However slow the machine is, the second ten come after the first group has been sent.
    const answers: ReturnType<typeof send>[] = [];
    for (const groups of [1, 2]) {
      for (let n = 0; n < 10; n += 1) answers.push(send(answers.length));
      await until(`${groups} groups to wait for the lock`, async () => {
        const { rows } = await admin.query<{ n: string }>(`select count(*) as n ${waiting}`);
        return Number(rows[0]?.n) >= groups;
      });
    }
    for (let n = 0; n < 20; n += 1) answers.push(send(answers.length));
    await admin.query(`select pg_terminate_backend(pid) ${waiting}`);
    await admin.query('commit');
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    assert.ok(statuses.includes(500), 'those that were on their way');
    assert.ok(statuses.includes(202), 'those that came after them');
    assert.ok(statuses.every((status) => status === 202 || status === 500));
    const accepted = statuses.filter((status) => status === 202).length;
    assert.equal((await stored('cut')).length, accepted);

    const again = await Promise.all(Array.from({ length: 40 }, (_, n) => send(n)));
    assert.ok(again.every(({ status }) => status === 202));
    const rows = await stored('cut');
    assert.equal(rows.length, 40, 'each that was sent again is stored once');
    await admin.end();
  });
}
