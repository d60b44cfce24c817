import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { Registry } from 'prom-client';
import { createMetrics } from '../../src/metrics.ts';
import { createRawCleanup, createRetry } from '../../src/operations/payloads.ts';
import { until } from '@oselya/testing';
import { startCollector } from '../support/collector.ts';
import { openDatabase, store, payloadOf } from '../support/pipeline.ts';

const database = await openDatabase();
const { db } = database;
const collector = await startCollector(database);

type Item = {
  raw_id: number;
  status: string;
  error: { code: string } | null;
  request_id: string | null;
};

type Raw = { status: string; listing_id: number };

/** Stores payloads that ended, each a microsecond after the one before. */
async function ended(source: string, status: string, count: number): Promise<number[]> {
  await sql`insert into sources (slug) values (${source}) on conflict do nothing`.execute(db);
  const { rows } = await sql<{ id: number }>`
    insert into raw_data (source_slug, external_id, payload, content_hash, status, error, updated_at)
    select ${source}, n::text, '{}', n::text, ${status}, '{"code": "model_failed", "message": "No."}',
      timestamptz '2026-05-04T09:00:00Z' + n * interval '1 microsecond'
    from generate_series(1, ${count}) as n order by n
    returning id`.execute(db);
  return rows.map(({ id }) => id);
}

/** Every page of a list, as their links lead from one to the next. */
async function walk(path: string): Promise<Item[][]> {
  const page = await collector.get(path);
  assert.equal(page.status, 200, page.text);
  const next = /^<(.+)>; rel="next"$/.exec(page.headers.get('link') ?? '')?.[1];
  return [page.json<Item[]>(), ...(next === undefined ? [] : await walk(next))];
}

test('payloads of a status are listed page by page, the last changed first', async () => {
  const ids = await ended('listed', 'failed', 7);
  await ended('listed', 'invalid', 2);
  await ended('other', 'failed', 1);
  const pages = await walk('/api/v1/admin/raw?status=failed&source_slug=listed&limit=3');
  assert.deepEqual(
    pages.map((page) => page.length),
    [3, 3, 1],
  );
  assert.deepEqual(
    pages.flat().map((item) => item.raw_id),
    ids.toReversed(),
  );
  assert.equal(pages[0]?.[0]?.error?.code, 'model_failed');
  const everywhere = await walk('/api/v1/admin/raw?status=failed');
  assert.equal(everywhere.flat().length, 8);
  assert.deepEqual(await walk('/api/v1/admin/raw?status=completed'), [[]]);
});

test('a listed payload names the request that brought it, and not what it holds', async () => {
  const sent = await collector.post('/api/v1/ingest', payloadOf({ source_slug: 'traced' }), {
    'x-request-id': 'a-request',
  });
  const { raw_id: id } = sent.json<{ raw_id: number }>();
  const item = await until(
    'the payload',
    async () =>
      (await collector.get('/api/v1/admin/raw?status=completed&source_slug=traced')).json<
        Item[]
      >()[0],
  );
  assert.equal(item.raw_id, id);
  assert.equal(item.request_id, 'a-request');
  assert.ok(!('payload' in item));
});

test('wrong questions about payloads are refused', async () => {
  for (const path of [
    'raw',
    'raw?status=lost',
    'raw?status=failed&limit=0',
    'raw?status=failed&limit=1001',
    'raw?status=failed&cursor=zzz',
    `raw?status=failed&cursor=${Buffer.from('{"at":"now","id":1}').toString('base64url')}`,
    'raw?status=failed&source_slug=A',
    'raw?status=failed&more=1',
  ]) {
    assert.equal((await collector.get(`/api/v1/admin/${path}`)).status, 422, path);
  }
});

test('a cursor with any member changed is refused, or leads to a page', async () => {
  const values = [
    -1,
    0,
    1.5,
    1e300,
    2 ** 53,
    Number.MAX_SAFE_INTEGER,
    null,
    'x',
    {},
    '2026-02-30 00:00:00+00',
  ];
  const statuses = new Set<number>();
  for (const value of values) {
    for (const position of [
      { at: value, id: 1 },
      { at: 1, id: value },
    ]) {
      const forged = Buffer.from(JSON.stringify(position)).toString('base64url');
      const { status, text } = await collector.get(
        `/api/v1/admin/raw?status=failed&cursor=${forged}`,
      );
      assert.ok(status === 200 || status === 422, `${JSON.stringify(position)}: ${text}`);
      statuses.add(status);
    }
  }
  assert.equal(statuses.size, 2);
});

const remove = (query: string) =>
  fetch(`${collector.url}/api/v1/admin/raw-data${query}`, { method: 'DELETE' });

/** How many a removal has removed. */
const removed = async (days: number) =>
  (await (await remove(`?older_than_days=${days}`)).json()) as { deleted: number };

test('old payloads are removed through the API, the history of their listing stays', async () => {
  const payload = payloadOf({ source_slug: 'cleaned', price: 50_000, currency: 'USD' });
  const finished: number[] = [];
  let listingId: number | undefined;
  for (const price of [50_000, 49_000]) {
    const sent = await collector.post('/api/v1/ingest', { ...payload, price });
    const { raw_id: id } = sent.json<{ raw_id: number }>();
    finished.push(id);
    await until(`raw record ${id}`, async () => {
      const raw = (await collector.get(`/api/v1/raw/${id}`)).json<Partial<Raw>>();
      listingId = raw.listing_id;
      return raw.status === 'completed';
    });
  }
  assert.equal((await removed(1)).deleted, 0);
  const { deleted } = await removed(0);
  assert.ok(deleted >= 2);
  const answers = await Promise.all(finished.map((id) => collector.get(`/api/v1/raw/${id}`)));
  assert.deepEqual(
    answers.map(({ status }) => status),
    [404, 404],
  );
  const history = (await collector.get(`/api/v1/listings/${listingId}/history`)).json<Item[]>();
  assert.deepEqual(
    history.map((item) => item.raw_id),
    finished.toReversed(),
  );
  const metrics = (await collector.get('/metrics')).text;
  assert.ok(metrics.includes(`collector_raw_deleted_total ${deleted}\n`));
});

test('a removal without a good age is refused', async () => {
  for (const query of ['', '?older_than_days=-1', '?older_than_days=1.5', '?older_than_days=x']) {
    assert.equal((await remove(query)).status, 422, query);
  }
  assert.equal((await remove('?older_than_days=36501')).status, 422);
  assert.equal((await remove('?older_than_days=9&source_slug=a')).status, 422);
});

test('no worker claims payloads from here on', () => collector.close());

const metrics = createMetrics(new Registry());
const cleanup = createRawCleanup({ db, metrics });

/** Stores payloads of a source that came so many days ago. */
async function payloads(
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
  const [old = 0] = await payloads('ages', { days: 31 });
  const [young = 0] = await payloads('ages', { days: 29 });
  const others: number[] = [];
  for (const status of ['pending', 'processing', 'invalid', 'failed']) {
    others.push(...(await payloads('ages', { days: 900, status })));
  }
  assert.equal(await cleanup({ olderThanDays: 30 }), 1);
  assert.deepEqual(await left('ages'), [young, ...others]);
  assert.ok(!(await left('ages')).includes(old));
  assert.equal(await cleanup({ olderThanDays: 0 }), 1);
  assert.deepEqual(await left('ages'), others);
});

test('payloads that a listing was made from go too; the listing and its history stay', async () => {
  const [first = 0] = await payloads('kept', { days: 50 });
  const [last = 0] = await payloads('kept', { days: 40 });
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
    .where('raw_id', 'in', [first, last])
    .orderBy('raw_id')
    .execute();
  assert.deepEqual(
    snapshots.map((snapshot) => snapshot.raw_id),
    [first, last],
  );
});

test('the age counts from when a payload came, whenever it was processed last', async () => {
  const [old = 0, again = 0] = await payloads('came', { days: 31, count: 2 });
  const [young = 0] = await payloads('came', { days: 29 });
  await sql`update raw_data set updated_at = now() where id = ${again}`.execute(db);
  await sql`update raw_data set updated_at = now() - interval '90 days'
    where id in (${old}, ${young})`.execute(db);
  assert.equal(await cleanup({ olderThanDays: 30 }), 2);
  assert.deepEqual(await left('came'), [young]);
  assert.equal(await cleanup({ olderThanDays: 0 }), 1);
});

test('an idempotency key counts for its 24 hours', async () => {
  await payloads('keys', { hours: 25, key: 'old' });
  const [fresh = 0] = await payloads('keys', { hours: 23, key: 'fresh' });
  assert.equal(await cleanup({ olderThanDays: 0 }), 1);
  assert.deepEqual(await left('keys'), [fresh]);
});

test('a removal ends after the batch in progress when it is aborted', async () => {
  await payloads('ending', { days: 10, count: 1500 });
  const first = await cleanup({ olderThanDays: 9, signal: AbortSignal.abort() });
  assert.ok(first > 0 && first <= 1000, String(first));
  assert.equal(await cleanup({ olderThanDays: 9 }), 1500 - first);
});

test('many go in batches, past those that stay', async () => {
  const ids = await payloads('many', { days: 10, count: 2500 });
  // The place of each in the order stays, and a key keeps it.
  await sql`update raw_data set status = 'failed'
    where source_slug = 'many' and external_id::integer <= 1200`.execute(db);
  await sql`create table deleted_batches (size integer)`.execute(db);
  await sql`create function note_deleted() returns trigger language plpgsql as $$
    begin insert into deleted_batches select count(*) from gone; return null; end $$`.execute(db);
  await sql`create trigger note_deleted after delete on raw_data referencing old table as gone
    for each statement execute function note_deleted()`.execute(db);
  const before = (await metrics.rawDeleted.get()).values[0]?.value ?? 0;
  assert.equal(await cleanup({ olderThanDays: 5 }), 1300);
  assert.equal((await left('many')).length, ids.length - 1300);
  const { rows } = await sql<{ size: number }>`select size from deleted_batches`.execute(db);
  assert.equal(rows.length, 3, 'a thousand are looked at in each');
  assert.ok(rows.every(({ size }) => size <= 1000));
  assert.equal((await metrics.rawDeleted.get()).values[0]?.value, before + 1300);
});

let notified = 0;
const retry = createRetry({ db, onRetried: () => (notified += 1) });

test('many payloads are put back in batches of at most 1000, others stay', async () => {
  await store(db, payloadOf({ source_slug: 'many-failed' }));
  await store(db, payloadOf({ source_slug: 'another' }));
  await sql`insert into raw_data
      (source_slug, external_id, payload, content_hash, status, attempts, error)
    select source, n::text, '{}', n::text, status, 3, '{"code":"model_failed"}'
    from generate_series(1, 2001) as n,
      (values ('many-failed', 'failed'), ('another', 'failed'), ('many-failed', 'invalid')) as kinds (source, status)
    where status = 'failed' and source = 'many-failed' or n = 1`.execute(db);
  await sql`create table batches (size integer)`.execute(db);
  await sql`create function note_batch() returns trigger language plpgsql as $$
    begin insert into batches select count(*) from changed; return null; end $$`.execute(db);
  await sql`create trigger note_batch after update on raw_data referencing new table as changed
    for each statement execute function note_batch()`.execute(db);

  assert.equal(await retry.all({ status: 'failed', source_slug: 'many-failed' }), 2001);
  const batches = await sql<{ size: number }>`select size from batches where size > 0`.execute(db);
  assert.deepEqual(
    batches.rows.map(({ size }) => size),
    [1000, 1000, 1],
  );
  assert.equal(notified, 3);
  const { rows } = await sql<{ source_slug: string; status: string; n: number }>`
    select source_slug, status, count(*)::integer as n from raw_data
    where (attempts = 3 or error is not null) and source_slug in ('many-failed', 'another') group by 1, 2 order by 1, 2`.execute(
    db,
  );
  assert.deepEqual(rows, [
    { source_slug: 'another', status: 'failed', n: 1 },
    { source_slug: 'many-failed', status: 'invalid', n: 1 },
  ]);
  await sql`drop trigger note_batch on raw_data`.execute(db);

  assert.ok((await retry.all({ status: 'failed' })) >= 1);
  assert.equal(await retry.all({ status: 'failed' }), 0);
});

test('a retry ends after the batch in progress when it is aborted', async () => {
  await sql`insert into sources (slug) values ('ending-retry')`.execute(db);
  await sql`insert into raw_data (source_slug, external_id, payload, content_hash, status)
    select 'ending-retry', n::text, '{}', n::text, 'failed' from generate_series(1, 1500) as n`.execute(
    db,
  );
  const filter = { status: 'failed', source_slug: 'ending-retry' } as const;
  assert.equal(await retry.all(filter, AbortSignal.abort()), 1000);
  assert.equal(await retry.all(filter), 500);
});

test('what fails again at once is not put back by the same call for ever', async () => {
  const id = await store(db, payloadOf({ source_slug: 'again' }));
  await db.updateTable('raw_data').set({ status: 'failed' }).where('id', '=', id).execute();
  await sql`insert into raw_data (source_slug, external_id, payload, content_hash, status)
    select 'again', n::text, '{}', n::text, 'failed' from generate_series(1, 999) as n`.execute(db);
  await sql`create function fail_again() returns trigger language plpgsql as $$
    begin new.status = 'failed'; new.updated_at = now() + interval '1 ms'; return new; end $$`.execute(
    db,
  );
  await sql`create trigger fail_again before update on raw_data
    for each row execute function fail_again()`.execute(db);
  let batches = 0;
  const watched = createRetry({
    db,
    onRetried() {
      batches += 1;
      assert.equal(batches, 1);
    },
  });
  assert.equal(await watched.all({ status: 'failed', source_slug: 'again' }), 1000);
});
