import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { Registry } from 'prom-client';
import { createMetrics } from '../../src/metrics.ts';
import { createRawCleanup } from '../../src/operations/payloads.ts';
import { createPayloadRetry } from '../../src/queue/retry.ts';
import { until } from '@oselya/testing';
import { processPayload, startCollector } from '../support/collector.ts';
import { openDatabase, store, createPayload } from '../support/pipeline.ts';

const database = await openDatabase();
const { db } = database;
const collector = await startCollector(database);

type RawItem = {
  raw_id: number;
  status: string;
  error: { code: string } | null;
  request_id: string | null;
};

/** Stores ended payloads, a microsecond apart. */
async function storeEnded(source: string, status: string, count: number): Promise<number[]> {
  await sql`insert into sources (slug) values (${source}) on conflict do nothing`.execute(db);
  const { rows } = await sql<{ id: number }>`
    insert into raw_data (source_slug, external_id, payload, content_hash, status, error, updated_at)
    select ${source}, n::text, '{}', n::text, ${status}, '{"code": "model_failed", "message": "No."}',
      timestamptz '2026-05-04T09:00:00Z' + n * interval '1 microsecond'
    from generate_series(1, ${count}) as n order by n
    returning id`.execute(db);
  return rows.map(({ id }) => id);
}

/** Reads all pages of a list by their links. */
async function readPages(path: string): Promise<RawItem[][]> {
  const page = await collector.get(path);
  assert.equal(page.status, 200, page.text);
  const nextPath = /^<(.+)>; rel="next"$/.exec(page.headers.get('link') ?? '')?.[1];
  return [page.json<RawItem[]>(), ...(nextPath === undefined ? [] : await readPages(nextPath))];
}

test('Payloads of a status are listed in pages, the last changed first', async () => {
  const ids = await storeEnded('listed', 'failed', 7);
  await storeEnded('listed', 'invalid', 2);
  await storeEnded('other', 'failed', 1);
  const pages = await readPages('/api/v1/admin/raw?status=failed&source_slug=listed&limit=3');
  assert.deepEqual(
    pages.map((page) => page.map((item) => item.raw_id)),
    [ids.slice(4).toReversed(), ids.slice(1, 4).toReversed(), ids.slice(0, 1)],
  );
  assert.equal(pages[0]?.[0]?.error?.code, 'model_failed');
  assert.equal((await readPages('/api/v1/admin/raw?status=failed')).flat().length, 8);
  assert.deepEqual(await readPages('/api/v1/admin/raw?status=completed'), [[]]);
});

test('A listed payload has its request ID but not its content', async () => {
  const headers = { 'x-request-id': 'a-request' };
  const payload = createPayload({ source_slug: 'traced' });
  const sentResponse = await collector.post('/api/v1/ingest', payload, headers);
  const path = '/api/v1/admin/raw?status=completed&source_slug=traced';
  const item = await until('the payload', async () => (await readPages(path))[0]?.[0]);
  assert.equal(item.raw_id, sentResponse.json<RawItem>().raw_id);
  assert.equal(item.request_id, 'a-request');
  assert.ok(!('payload' in item));
});

test('Invalid queries are rejected', async () => {
  const cursor = Buffer.from('{"at":"now","id":1}').toString('base64url');
  for (const path of [
    'raw',
    'raw?status=lost',
    'raw?status=failed&limit=0',
    'raw?status=failed&limit=1001',
    'raw?status=failed&cursor=zzz',
    `raw?status=failed&cursor=${cursor}`,
    'raw?status=failed&source_slug=A',
    'raw?status=failed&more=1',
  ]) {
    assert.equal((await collector.get(`/api/v1/admin/${path}`)).status, 422, path);
  }
  for (const query of ['', '?older_than_days=x', '?older_than_days=9&source_slug=a']) {
    assert.equal((await sendRemoval(query)).status, 422, query);
  }
  for (const days of [-1, 1.5, 36_501]) {
    assert.equal((await sendRemoval(`?older_than_days=${days}`)).status, 422);
  }
});

const sendRemoval = (query: string) =>
  fetch(`${collector.url}/api/v1/admin/raw-data${query}`, { method: 'DELETE' });

async function removeOlderThan(days: number): Promise<number> {
  const response = await sendRemoval(`?older_than_days=${days}`);
  return ((await response.json()) as { deleted: number }).deleted;
}

test('The API removes old payloads and keeps the history of their listing', async () => {
  const payload = createPayload({ source_slug: 'cleaned', currency: 'USD' });
  const first = await processPayload(collector, { ...payload, price: 50_000 });
  const second = await processPayload(collector, { ...payload, price: 49_000 });
  assert.equal(await removeOlderThan(1), 0);
  const deleted = await removeOlderThan(0);
  assert.ok(deleted >= 2);
  for (const { raw_id: id } of [first, second]) {
    assert.equal((await collector.get(`/api/v1/raw/${id}`)).status, 404);
  }
  const history = await collector.get(`/api/v1/listings/${second.listing_id}/history`);
  assert.deepEqual(
    history.json<RawItem[]>().map((item) => item.raw_id),
    [second.raw_id, first.raw_id],
  );
  const metrics = (await collector.get('/metrics')).text;
  assert.ok(metrics.includes(`collector_raw_deleted_total ${deleted}\n`));
});

test('The collector stops before the removals', () => collector.close());

const metrics = createMetrics(new Registry());
const cleanup = createRawCleanup({ db, metrics });

/** Stores payloads of a source with this age. */
async function storeAged(
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

async function findRemaining(source: string): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select id from raw_data where source_slug = ${source} order by id`.execute(db);
  return rows.map(({ id }) => id);
}

test('Only old completed payloads are removed', async () => {
  await storeAged('ages', { days: 31 });
  const keptIds = await storeAged('ages', { days: 29 });
  for (const status of ['pending', 'processing', 'invalid', 'failed']) {
    keptIds.push(...(await storeAged('ages', { days: 900, status })));
  }
  assert.equal(await cleanup({ olderThanDays: 30 }), 1);
  assert.deepEqual(await findRemaining('ages'), keptIds);
  assert.equal(await cleanup({ olderThanDays: 0 }), 1);
  assert.deepEqual(await findRemaining('ages'), keptIds.slice(1));
});

test('An idempotency key is kept for 24 hours', async () => {
  await storeAged('keys', { hours: 25, key: 'old' });
  const freshIds = await storeAged('keys', { hours: 23, key: 'fresh' });
  assert.equal(await cleanup({ olderThanDays: 0 }), 1);
  assert.deepEqual(await findRemaining('keys'), freshIds);
});

test('An aborted removal ends after the batch in progress', async () => {
  await storeAged('ending', { days: 10, count: 1500 });
  const first = await cleanup({ olderThanDays: 9, signal: AbortSignal.abort() });
  assert.ok(first > 0 && first <= 1000, String(first));
  assert.equal(await cleanup({ olderThanDays: 9 }), 1500 - first);
});

let notifyCount = 0;
const retry = createPayloadRetry({ db, onRetried: () => (notifyCount += 1) });

test('A retry returns failed payloads to the queue in batches of at most 1000', async () => {
  for (const source_slug of ['doshka', 'many-failed', 'another']) {
    await store(db, createPayload({ source_slug }));
  }
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

  assert.equal(await retry.retryAll({ status: 'failed', source_slug: 'many-failed' }), 2001);
  const batches = await sql<{ size: number }>`select size from batches where size > 0`.execute(db);
  assert.deepEqual(
    batches.rows.map(({ size }) => size),
    [1000, 1000, 1],
  );
  assert.equal(notifyCount, 3);
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

  assert.ok((await retry.retryAll({ status: 'failed' })) >= 1);
  assert.equal(await retry.retryAll({ status: 'failed' }), 0);
});

test('A retry does not return payloads that fail again', async () => {
  await sql`insert into raw_data (source_slug, external_id, payload, content_hash, status)
    select 'doshka', n::text, '{}', n::text, 'failed' from generate_series(1, 1000) as n`.execute(
    db,
  );
  await sql`create function fail_again() returns trigger language plpgsql as $$
    begin new.status = 'failed'; new.updated_at = now() + interval '1 ms'; return new; end $$`.execute(
    db,
  );
  await sql`create trigger fail_again before update on raw_data
    for each row execute function fail_again()`.execute(db);
  let batches = 0;
  const countingRetry = createPayloadRetry({ db, onRetried: () => (batches += 1) });
  assert.equal(await countingRetry.retryAll({ status: 'failed', source_slug: 'doshka' }), 1000);
  assert.equal(batches, 1);
});
