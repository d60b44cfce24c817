import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { Registry } from 'prom-client';
import { createMetrics } from '../../../src/metrics.ts';
import { createRawCleanup } from '../../../src/operations/raw/cleanup.ts';
import { openDatabase } from '../../support/database.ts';

const { db } = await openDatabase();
const metrics = createMetrics(new Registry());
const cleanup = createRawCleanup({ db, metrics });

/** Stores payloads of a source that came so many days ago. */
async function ended(
  source: string,
  { days = 0, count = 1, status = 'completed', key = null as string | null, hours = 0 } = {},
): Promise<number[]> {
  await sql`insert into sources (slug) values (${source}) on conflict do nothing`.execute(db);
  const age = sql`now() - ${days} * interval '1 day' - ${hours} * interval '1 hour'`;
  const { rows } = await sql<{ id: number }>`
    insert into raw_data (source_slug, external_id, payload, content_hash, status, idempotency_key,
      created_at)
    select ${source}, n::text, '{}', n::text, ${status}, ${key}::text, ${age}
    from generate_series(1, ${count}) as n
    returning id`.execute(db);
  return rows.map(({ id }) => id);
}

async function left(source: string): Promise<number[]> {
  const rows = await db
    .selectFrom('raw_data')
    .select('id')
    .where('source_slug', '=', source)
    .orderBy('id')
    .execute();
  return rows.map(({ id }) => id);
}

test('completed payloads are removed when they are old enough, all others stay', async () => {
  const [old = 0] = await ended('ages', { days: 31 });
  const [young = 0] = await ended('ages', { days: 29 });
  const others: number[] = [];
  for (const status of ['pending', 'processing', 'invalid', 'failed']) {
    others.push(...(await ended('ages', { days: 900, status })));
  }
  assert.equal(await cleanup({ olderThanDays: 30 }), 1);
  assert.deepEqual(await left('ages'), [young, ...others]);
  assert.ok(!(await left('ages')).includes(old));
  assert.equal(await cleanup({ olderThanDays: 0 }), 1);
  assert.deepEqual(await left('ages'), others);
});

test('payloads that a listing was made from go too; the listing and its history stay', async () => {
  const [first = 0] = await ended('kept', { days: 50 });
  const [last = 0] = await ended('kept', { days: 40 });
  await sql`insert into property_listings (source_slug, external_id, description, search_text)
    values ('kept', '1', 'Квартира', '')`.execute(db);
  await sql`insert into listing_payloads (source_slug, external_id, raw_id)
    values ('kept', '1', ${last})`.execute(db);
  await sql`with listing as (select id from property_listings where source_slug = 'kept')
    insert into listing_snapshots (listing_id, raw_id, listing, changes)
    select id, raw_id, '{}', '{}' from listing, unnest(array[${first}, ${last}]::bigint[]) as raw_id`.execute(
    db,
  );
  assert.equal(await cleanup({ olderThanDays: 45 }), 1);
  assert.deepEqual(await left('kept'), [last], 'age alone counts');
  assert.equal(await cleanup({ olderThanDays: 39 }), 1);
  assert.deepEqual(await left('kept'), []);
  const snapshots = await db
    .selectFrom('listing_snapshots')
    .select('raw_id')
    .orderBy('raw_id')
    .execute();
  assert.deepEqual(
    snapshots.map((snapshot) => snapshot.raw_id),
    [first, last],
  );
});

test('the age counts from when a payload came, whenever it was processed last', async () => {
  const [old = 0, again = 0] = await ended('came', { days: 31, count: 2 });
  const [young = 0] = await ended('came', { days: 29 });
  await sql`update raw_data set updated_at = now() where id = ${again}`.execute(db);
  await sql`update raw_data set updated_at = now() - interval '90 days'
    where id in (${old}, ${young})`.execute(db);
  assert.equal(await cleanup({ olderThanDays: 30 }), 2);
  assert.deepEqual(await left('came'), [young]);
  assert.equal(await cleanup({ olderThanDays: 0 }), 1);
});

test('an idempotency key counts for its 24 hours', async () => {
  await ended('keys', { hours: 25, key: 'old' });
  const [fresh = 0] = await ended('keys', { hours: 23, key: 'fresh' });
  assert.equal(await cleanup({ olderThanDays: 0 }), 1);
  assert.deepEqual(await left('keys'), [fresh]);
});

test('it ends after the batch in progress when it is told to', async () => {
  await ended('ending', { days: 10, count: 1500 });
  const first = await cleanup({ olderThanDays: 9, signal: AbortSignal.abort() });
  assert.ok(first > 0 && first <= 1000, String(first));
  assert.equal(await cleanup({ olderThanDays: 9 }), 1500 - first);
});

test('many go in batches, past those that stay', async () => {
  const ids = await ended('many', { days: 10, count: 2500 });
  // The place of each in the order stays, and a key keeps it.
  await sql`update raw_data set status = 'failed'
    where source_slug = 'many' and external_id::integer <= 1200`.execute(db);
  await sql`create table batches (size integer)`.execute(db);
  await sql`create function note_batch() returns trigger language plpgsql as $$
    begin insert into batches select count(*) from gone; return null; end $$`.execute(db);
  await sql`create trigger note_batch after delete on raw_data referencing old table as gone
    for each statement execute function note_batch()`.execute(db);
  const before = (await metrics.rawDeleted.get()).values[0]?.value ?? 0;
  assert.equal(await cleanup({ olderThanDays: 5 }), 1300);
  assert.equal((await left('many')).length, ids.length - 1300);
  const { rows } = await sql<{ size: number }>`select size from batches`.execute(db);
  assert.equal(rows.length, 3, 'a thousand are looked at in each');
  assert.ok(rows.every(({ size }) => size <= 1000));
  assert.equal((await metrics.rawDeleted.get()).values[0]?.value, before + 1300);
});
