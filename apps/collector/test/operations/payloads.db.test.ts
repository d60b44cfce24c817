import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { Registry } from 'prom-client';
import { createMetrics } from '../../src/metrics.ts';
import { createRawCleanup } from '../../src/operations/payloads.ts';
import { retryPayloads } from '../../src/queue/retry.ts';
import { until } from '@oselya/testing';
import { processPayload, readPages, startCollector } from '../support/collector.ts';
import { openDatabase, createPayload } from '../support/pipeline.ts';

const database = await openDatabase();
const { db } = database;
const collector = await startCollector(database);

type ListedRawRecord = {
  raw_id: number;
  status: string;
  error: { code: string } | null;
  request_id: string | null;
};

/** Stores payloads of a source with the given age, updated a microsecond apart. */
async function storeRawRecords(
  source: string,
  { days = 0, hours = 0, count = 1, status = 'completed', key = null as string | null },
): Promise<number[]> {
  await sql`insert into sources (slug) values (${source}) on conflict do nothing`.execute(db);
  const { rows } = await sql<{ id: number }>`
    insert into raw_data (source_slug, external_id, payload, content_hash, status, error,
      idempotency_key, created_at, updated_at)
    select ${source}, n::text, '{}', n::text, ${status}, '{"code": "model_failed", "message": "No."}',
      ${key}::text, now() - ${days} * interval '1 day' - ${hours} * interval '1 hour',
      timestamptz '2026-05-04T09:00:00Z' + n * interval '1 microsecond'
    from generate_series(1, ${count}) as n order by n
    returning id`.execute(db);
  return rows.map(({ id }) => id);
}

test('Payloads of a status are listed in pages, the last changed first', async () => {
  const ids = await storeRawRecords('listed', { status: 'failed', count: 7 });
  await storeRawRecords('listed', { status: 'invalid', count: 2 });
  await storeRawRecords('other', { status: 'failed' });
  const pages = await readPages<ListedRawRecord>(
    collector,
    '/api/v1/admin/raw?status=failed&source_slug=listed&limit=3',
  );
  assert.deepEqual(
    pages.map((page) => page.map((item) => item.raw_id)),
    [ids.slice(4).toReversed(), ids.slice(1, 4).toReversed(), ids.slice(0, 1)],
  );
  assert.equal(pages[0]?.[0]?.error?.code, 'model_failed');
  assert.equal(
    (await readPages<ListedRawRecord>(collector, '/api/v1/admin/raw?status=failed')).flat().length,
    8,
  );
  assert.deepEqual(
    await readPages<ListedRawRecord>(collector, '/api/v1/admin/raw?status=completed'),
    [[]],
  );
});

test('A listed payload has its request ID but not its content', async () => {
  const headers = { 'x-request-id': 'a-request' };
  const payload = createPayload({ source_slug: 'traced' });
  const sentResponse = await collector.post('/api/v1/ingest', payload, headers);
  const path = '/api/v1/admin/raw?status=completed&source_slug=traced';
  const item = await until(
    'the payload',
    async () => (await readPages<ListedRawRecord>(collector, path))[0]?.[0],
  );
  assert.equal(item.raw_id, sentResponse.json<ListedRawRecord>().raw_id);
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

test('Sources are listed with figures of their listings, payloads and images, page by page', async () => {
  const payload = createPayload({ source_slug: 'figures' });
  const image_urls = ['http://127.0.0.1:9/1.jpg', 'http://127.0.0.1:9/2.jpg'];
  const { listing_id: liveId } = await processPayload(collector, { ...payload, image_urls });
  const archivedPayload = createPayload({ source_slug: 'figures' });
  const { listing_id: archivedId } = await processPayload(collector, archivedPayload);
  assert.notEqual(liveId, archivedId);
  await sql`update property_listings set archived_at = now() where id = ${archivedId}`.execute(db);
  await storeRawRecords('figures', { status: 'failed', days: 2 });
  await storeRawRecords('figures', { status: 'invalid', days: 2, count: 3 });
  await storeRawRecords('figures', { status: 'processing', days: 2 });

  type Source = Record<string, unknown> & { source_slug: string; last_payload_at: string };
  const readSources = async () =>
    (await readPages<Source>(collector, '/api/v1/sources?limit=2')).flat();
  const isCounted = (source: Source) =>
    source.source_slug === 'figures' && Object(source['payloads_by_status'])['processing'] === 1;
  const { created_at, counted_at, last_payload_at, ...figures } = await until(
    'figures of the last rows',
    async () => (await readSources()).find(isCounted),
  );
  assert.deepEqual(figures, {
    source_slug: 'figures',
    listings: 1,
    archived: 1,
    images: 2,
    payloads: 7,
    failed: 1,
    payloads_by_status: { pending: 0, processing: 1, completed: 2, invalid: 3, failed: 1 },
    invalid_share: 0.5,
    failed_share: 0.1667,
  });
  for (const time of [created_at, counted_at]) assert.ok(Date.parse(String(time)) > 0);
  const newest = await db
    .selectFrom('raw_data')
    .select('created_at')
    .where('source_slug', '=', 'figures')
    .orderBy('id', 'desc')
    .executeTakeFirstOrThrow();
  assert.equal(last_payload_at, newest.created_at.toISOString());
  const names = (await readSources()).map(({ source_slug: source }) => source);
  assert.deepEqual(names, [...new Set(names)].toSorted());
  for (const query of ['limit=0', 'limit=1001', 'cursor=zzz', 'more=1']) {
    assert.equal((await collector.get(`/api/v1/sources?${query}`)).status, 422, query);
  }
});

test('Accepted and processed payloads are counted by hour, of all sources or of one', async () => {
  const atHour = (hours: number) =>
    sql<Date>`date_trunc('hour', now(), 'UTC') - ${hours} * interval '1 hour'`;
  const [earlierId, ...ids] = await storeRawRecords('active', { count: 4 });
  for (const [id, status, acceptedHours, endedHours] of [
    [earlierId, 'failed', 5, 1],
    [ids[0], 'completed', 2, 2],
    [ids[1], 'invalid', 2, 1],
    [ids[2], 'processing', 1, 0],
  ] as const) {
    await db
      .updateTable('raw_data')
      .set({ status, created_at: atHour(acceptedHours), updated_at: atHour(endedHours) })
      .where('id', '=', id ?? 0)
      .execute();
  }
  type Hour = Record<'accepted' | 'completed' | 'invalid' | 'failed', number> & { hour: string };
  const readActivity = async (query: string) =>
    (await collector.get(`/api/v1/admin/activity${query}`)).json<Hour[]>();
  const hours = await readActivity('?hours=3&source_slug=active');
  assert.deepEqual(
    hours.map(({ accepted, completed, invalid, failed }) => [accepted, completed, invalid, failed]),
    [
      [2, 1, 0, 0],
      [1, 0, 1, 1],
      [0, 0, 0, 0],
    ],
  );
  const times = hours.map(({ hour }) => Date.parse(hour));
  assert.deepEqual(
    times.map((time) => (time - (times[0] ?? 0)) / 3_600_000),
    [0, 1, 2],
  );
  assert.equal((times[0] ?? 1) % 3_600_000, 0);
  const allHours = await readActivity('');
  assert.equal(allHours.length, 24);
  assert.ok((allHours.at(-2)?.failed ?? 0) >= 1);
  for (const query of ['hours=0', 'hours=169', 'hours=x', 'source_slug=A', 'more=1']) {
    assert.equal((await collector.get(`/api/v1/admin/activity?${query}`)).status, 422, query);
  }
});

test('The API removes old payloads and keeps the history of their listing', async () => {
  const payload = createPayload({ source_slug: 'cleaned', currency: 'USD' });
  const firstRecord = await processPayload(collector, { ...payload, price: 50_000 });
  const secondRecord = await processPayload(collector, { ...payload, price: 49_000 });
  assert.equal(await removeOlderThan(1), 0);
  const deletedCount = await removeOlderThan(0);
  assert.ok(deletedCount >= 2);
  for (const { raw_id: id } of [firstRecord, secondRecord]) {
    assert.equal((await collector.get(`/api/v1/raw/${id}`)).status, 404);
  }
  const history = await collector.get(`/api/v1/listings/${secondRecord.listing_id}/history`);
  assert.deepEqual(
    history.json<ListedRawRecord[]>().map((item) => item.raw_id),
    [secondRecord.raw_id, firstRecord.raw_id],
  );
  const metrics = (await collector.get('/metrics')).text;
  assert.ok(metrics.includes(`collector_raw_deleted_total ${deletedCount}\n`));
});

test('The collector stops before the removals', () => collector.close());

const metrics = createMetrics(new Registry());
const cleanup = createRawCleanup({ db, metrics });

async function findRemaining(source: string): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select id from raw_data where source_slug = ${source} order by id`.execute(db);
  return rows.map(({ id }) => id);
}

test('Only old completed payloads are removed', async () => {
  await storeRawRecords('ages', { days: 31 });
  const remainingIds = await storeRawRecords('ages', { days: 29 });
  for (const status of ['pending', 'processing', 'invalid', 'failed']) {
    remainingIds.push(...(await storeRawRecords('ages', { days: 900, status })));
  }
  assert.equal(await cleanup({ olderThanDays: 30 }), 1);
  assert.deepEqual(await findRemaining('ages'), remainingIds);
  assert.equal(await cleanup({ olderThanDays: 0 }), 1);
  assert.deepEqual(await findRemaining('ages'), remainingIds.slice(1));
});

test('An idempotency key is kept for 24 hours', async () => {
  await storeRawRecords('keys', { hours: 25, key: 'old' });
  const freshIds = await storeRawRecords('keys', { hours: 23, key: 'fresh' });
  assert.equal(await cleanup({ olderThanDays: 0 }), 1);
  assert.deepEqual(await findRemaining('keys'), freshIds);
});

test('An aborted removal ends after the batch in progress', async () => {
  await storeRawRecords('ending', { days: 10, count: 1500 });
  const firstCount = await cleanup({ olderThanDays: 9, signal: AbortSignal.abort() });
  assert.ok(firstCount > 0 && firstCount <= 1000, String(firstCount));
  assert.equal(await cleanup({ olderThanDays: 9 }), 1500 - firstCount);
});

test('A retry returns failed payloads to the queue in batches of at most 1000', async () => {
  await storeRawRecords('many-failed', { status: 'failed', count: 2001 });
  await storeRawRecords('another', { status: 'failed' });
  await storeRawRecords('many-failed', { status: 'invalid' });
  await sql`update raw_data set attempts = 3 where error is not null`.execute(db);
  let notifyCount = 0;
  const retry = (filter: Parameters<typeof retryPayloads>[1]) =>
    retryPayloads(db, filter, () => (notifyCount += 1));
  await sql`create table batches (size integer)`.execute(db);
  await sql`create function note_batch() returns trigger language plpgsql as $$
    begin insert into batches select count(*) from changed where waits; return null; end $$`.execute(
    db,
  );
  await sql`create trigger note_batch after update on raw_data referencing new table as changed
    for each statement execute function note_batch()`.execute(db);

  assert.equal(await retry({ status: 'failed', source_slug: 'many-failed' }), 2001);
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

  assert.ok((await retry({ status: 'failed' })) >= 1);
  assert.equal(await retry({ status: 'failed' }), 0);
});

test('A retry does not return payloads that fail again', async () => {
  await storeRawRecords('doshka', { status: 'failed', count: 1000 });
  await sql`create function fail_again() returns trigger language plpgsql as $$
    begin new.status = 'failed'; new.updated_at = now() + interval '1 ms'; return new; end $$`.execute(
    db,
  );
  await sql`create trigger fail_again before update on raw_data
    for each row execute function fail_again()`.execute(db);
  let batchCount = 0;
  const filter = { status: 'failed', source_slug: 'doshka' } as const;
  assert.equal(await retryPayloads(db, filter, () => (batchCount += 1)), 1000);
  assert.equal(batchCount, 1);
});
