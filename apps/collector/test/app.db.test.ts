import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { StartError } from '@oselya/kit';
import { sql } from 'kysely';
import { waitWithTimeout } from '../src/async/wait.ts';
import { start } from '../src/main.ts';
import { until } from '@oselya/testing';
import { processPayload, startCollector } from './support/collector.ts';
import {
  DIMENSIONS,
  openDatabase,
  createPayload,
  log,
  updateRawRecord,
  waitUntilCompleted,
} from './support/pipeline.ts';

const database = await openDatabase();
const { db } = database;
const collector = await startCollector(database, { COLLECTOR_INGEST_PER_MINUTE: '0' });

test('Every sample listing passes the whole pipeline', async () => {
  const samplesPath = join(import.meta.dirname, '../../../samples/listings.jsonl');
  const lines = (await readFile(samplesPath, 'utf8'))
    .split('\n')
    .filter((line) => line.trim() !== '');
  const responses = await Promise.all(lines.map((line) => collector.post('/api/v1/ingest', line)));
  for (const { status, text } of responses) assert.equal(status, 202, text);

  type Queue = { counts: Record<string, number> };
  const counts = await until('an empty queue', async () => {
    const queue = (await collector.get('/api/v1/admin/queue')).json<Queue>();
    return !queue.counts['pending'] && !queue.counts['processing'] && queue.counts;
  });
  const { completed = 0, invalid = 0, failed = 0 } = counts;
  assert.equal(completed + invalid, lines.length);
  assert.equal(failed, 0);
  assert.ok(invalid > 0, 'some samples are not listings');

  const unembeddedListings = await db
    .selectFrom('property_listings')
    .select('id')
    .where('embedding', 'is', null)
    .execute();
  assert.deepEqual(unembeddedListings, [], 'every listing can be found by similarity');

  const response = await collector.post('/api/v1/search/fulltext', { query: 'квартира' });
  assert.ok(response.json<{ items: object[] }>().items.length > 0);
});

test('Any spelling of a city finds its listings, and a name of several places stays as written', async () => {
  const names = ['Київ', 'Киев', 'Kyiv', 'Kiev', 'м. Київ', 'в Києві', 'КИЇВ'];
  const payloads = [...names, 'Городок'].map((city) =>
    createPayload({ city, description: 'Продам квартиру, назвослово, 2 кімнати' }),
  );
  const rawRecords = await Promise.all(
    payloads.map((payload) => processPayload(collector, payload)),
  );
  const ids = rawRecords.map(({ listing_id: id }) => id);
  type Page = { items: { listing: { listing_id: number; city: string } }[] };
  for (const city of names) {
    const response = await collector.post('/api/v1/search/fulltext', { query: 'назвослово', city });
    const listings = response.json<Page>().items.map(({ listing }) => listing);
    const foundIds = listings.map(({ listing_id: id }) => id);
    assert.deepEqual(new Set(foundIds), new Set(ids.slice(0, -1)), city);
    assert.ok(listings.every((listing) => listing.city === 'Київ'));
  }
  const response = await collector.get(`/api/v1/listings/${ids.at(-1)}`);
  assert.partialDeepStrictEqual(response.json<object>(), {
    city: 'Городок',
    place: { status: 'ambiguous', place_id: null, text: 'Городок' },
  });
});

const createFailedPayload = async (source_slug: string) => {
  const { raw_id: id } = await processPayload(collector, createPayload({ source_slug }));
  await updateRawRecord(db, id, { status: 'failed', attempts: 3 });
  return id;
};

test('Failed payloads are returned to the queue one by one or all at once', async () => {
  const firstId = await createFailedPayload('retry-one');
  // Many clients send a content type with an empty body.
  const response = await collector.post(`/api/v1/admin/raw/${firstId}/retry`, '');
  assert.deepEqual(response.json(), { raw_id: firstId, status: 'pending' });
  await waitUntilCompleted(db, firstId);
  assert.equal((await collector.post(`/api/v1/admin/raw/${firstId}/retry`)).status, 409);
  assert.equal((await collector.post('/api/v1/admin/raw/999999/retry')).status, 404);

  const [secondId, otherId] = [
    await createFailedPayload('retry-all'),
    await createFailedPayload('retry-other'),
  ];
  const retry = (body: object) => collector.post('/api/v1/admin/raw/retry', body);
  assert.deepEqual((await retry({ status: 'failed', source_slug: 'retry-all' })).json(), {
    retried: 1,
  });
  await waitUntilCompleted(db, secondId);
  assert.deepEqual((await retry({ status: 'failed' })).json(), { retried: 1 });
  await waitUntilCompleted(db, otherId);
  assert.equal((await retry({ status: 'completed' })).status, 422);
});

test('The queue endpoint counts payloads by status', async () => {
  await processPayload(collector, createPayload());
  const queue = (await collector.get('/api/v1/admin/queue')).json<{
    counts: Record<string, number>;
    ended_age_seconds: number | null;
    oldest_pending_seconds: number | null;
    finished_per_minute: number;
    breaker: string;
  }>();
  assert.deepEqual(Object.keys(queue.counts).toSorted(), [
    'completed',
    'failed',
    'invalid',
    'pending',
    'processing',
  ]);
  assert.ok((queue.counts['completed'] ?? 0) > 0);
  assert.ok(queue.ended_age_seconds !== null, 'all ended payloads are counted');
  assert.ok(queue.finished_per_minute > 0);
  assert.equal(queue.breaker, 'closed');
});

test('Health lists its checks and reports a full disk as down', async () => {
  type Health = { status: string; checks: Record<string, { status: string }> };
  const health = await collector.get('/health');
  assert.equal(health.status, 200);
  assert.equal(health.json<Health>().status, 'ok');
  assert.deepEqual(Object.keys(health.json<Health>().checks).toSorted(), [
    'database',
    'disk',
    'model',
  ]);
  await using fullCollector = await startCollector(database, {
    COLLECTOR_WORKER: 'false',
    MIN_FREE_DISK_MB: '999999999999',
  });
  const response = await fullCollector.get('/health');
  assert.deepEqual([response.status, response.headers.get('retry-after')], [503, '5']);
  assert.equal(response.json<Health>().checks['disk']?.status, 'down');
});

test('An unreachable or hanging model degrades the health without taking the service down', async () => {
  const silentServer = createServer((socket) => socket.resume());
  after(() => silentServer.close());
  await once(silentServer.listen(0, '127.0.0.1'), 'listening');
  const { port: silentPort } = silentServer.address() as AddressInfo;
  for (const port of [9, silentPort]) {
    await using disconnectedCollector = await startCollector(database, {
      COLLECTOR_WORKER: 'false',
      MODEL_MODE: 'openai',
      MODEL_BASE_URL: `http://127.0.0.1:${port}/v1`,
      MODEL_CHAT: 'chat',
      MODEL_EMBEDDING: 'embedding',
    });
    const health = await disconnectedCollector.get('/health');
    assert.equal(health.status, 200);
    const report = health.json<{ status: string; checks: { model: { status: string } } }>();
    assert.deepEqual([report.status, report.checks.model.status], ['degraded', 'degraded']);
  }
});

test('The metrics have every documented name', async () => {
  await processPayload(collector, createPayload());
  await collector.post('/api/v1/ingest', { source_slug: 'doshka' });
  const { text } = await collector.get('/metrics');
  for (const line of [
    'collector_ingest_requests_total{source="doshka",outcome="accepted"}',
    'collector_ingest_requests_total{source="unknown",outcome="refused"}',
    'collector_jobs_total{outcome="completed"}',
    'collector_stage_duration_seconds_count{stage="embed",outcome="done"}',
    'collector_queue_jobs{status="pending"}',
    'collector_queue_oldest_pending_seconds',
    'collector_model_requests_total{operation="extract",outcome="ok"}',
    'collector_model_request_duration_seconds_count{operation="embed"}',
    'collector_model_breaker_open 0',
    '# TYPE collector_images_total counter',
    '# TYPE collector_search_duration_seconds histogram',
    'http_request_duration_seconds_count{method="POST",route="/api/v1/ingest",status="202"}',
    'process_cpu_seconds_total',
  ]) {
    assert.ok(text.includes(line), line);
  }
});

test('Metrics are served while the database does not respond', async () => {
  const pendingJobs = /^collector_queue_jobs\{status="pending"\} \d+$/m;
  assert.match((await collector.get('/metrics')).text, pendingJobs);
  const [lockAcquired, lockReleased] = [
    Promise.withResolvers<void>(),
    Promise.withResolvers<void>(),
  ];
  const lockTransaction = db.transaction().execute(async (trx) => {
    await sql`lock table raw_data, duplicate_marks in access exclusive mode`.execute(trx);
    lockAcquired.resolve();
    await lockReleased.promise;
  });
  try {
    await lockAcquired.promise;
    const responsePromise = collector.get('/metrics');
    assert.ok(await waitWithTimeout(responsePromise, 25_000), 'a scrape waits for the database');
    const { text } = await responsePromise;
    assert.match(text, pendingJobs, 'the last known value');
    assert.match(text, /^collector_model_breaker_open 0$/m);
    assert.match(text, /^process_cpu_seconds_total /m);
  } finally {
    lockReleased.resolve();
    await lockTransaction;
  }
});

test('Startup fails on embeddings of a different width and names both widths', async () => {
  await assert.rejects(
    start(
      { EMBEDDING_DIMENSIONS: '32', COLLECTOR_PORT: '0', DATA_DIR: import.meta.dirname },
      { database, log },
    ),
    (error) =>
      error instanceof StartError &&
      error.message.includes('32') &&
      error.message.includes(String(DIMENSIONS)),
  );
});
