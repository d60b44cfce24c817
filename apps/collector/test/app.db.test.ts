import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { after, test } from 'node:test';
import { StartError } from '@oselya/kit';
import { createApiKeys } from '../src/access/api-keys.ts';
import { openapi, start } from '../src/main.ts';
import { startCollector } from './support/collector.ts';
import { DIMENSIONS, openDatabase, store } from './support/database.ts';
import { payloadOf } from './support/payload.ts';
import { log } from './support/pipeline.ts';
import { until } from './support/until.ts';

const database = await openDatabase();
const { db } = database;
const open = await startCollector(database);
const guarded = await startCollector(database, {
  COLLECTOR_AUTH: 'required',
  COLLECTOR_WORKER: 'false',
});
const keys = createApiKeys({ db });

type Raw = { raw_id: number; status: string; listing_id: number; error: { code: string } | null };

/** Sends a payload and waits for its end. */
async function processed(payload: object): Promise<Raw> {
  const { raw_id: rawId } = (await open.post('/api/v1/ingest', payload)).json<Raw>();
  return until(`raw record ${rawId}`, async () => {
    const raw = (await open.get(`/api/v1/raw/${rawId}`)).json<Raw>();
    return raw.status !== 'pending' && raw.status !== 'processing' && raw;
  });
}

test('a payload becomes a listing that can be read, with its history and pictures', async () => {
  const payload = payloadOf({
    price: 62_000,
    currency: 'USD',
    image_urls: [1, 2, 3].map((n) => `http://127.0.0.1:9/${n}.jpg`),
  });
  const first = await processed(payload);
  assert.equal(first.status, 'completed', JSON.stringify(first.error));
  const second = await processed({ ...payload, price: 60_000 });
  assert.equal(second.listing_id, first.listing_id);

  const address = `/api/v1/listings/${first.listing_id}`;
  const listing = (await open.get(address)).json<Record<string, unknown>>();
  assert.equal(listing['listing_id'], first.listing_id);
  assert.equal(listing['external_id'], payload.external_id);
  assert.equal(listing['price'], 60_000);
  assert.equal(listing['rooms'], 2);
  assert.equal(listing['archived_at'], null);
  assert.ok(!('embedding' in listing));

  const history = (await open.get(`${address}/history`)).json<
    { raw_id: number; changes: object; listing: { price: number } }[]
  >();
  assert.deepEqual(
    history.map((item) => [item.raw_id, item.listing.price]),
    [
      [second.raw_id, 60_000],
      [first.raw_id, 62_000],
    ],
  );
  assert.deepEqual(history[0]?.changes, { price: { from: 62_000, to: 60_000 } });

  const images = (await open.get(`${address}/images`)).json<
    { position: number; url: string; sha256: null; error: string }[]
  >();
  assert.deepEqual(
    images.map(({ position, url, sha256 }) => [position, url, sha256]),
    payload.image_urls?.map((url, position) => [position, url, null]),
  );
  assert.ok(images[0]?.error, 'an address of this machine is refused, with the reason');

  assert.deepEqual(await walk(`${address}/history?limit=1`), [[history[0]], [history[1]]]);
  assert.deepEqual(await walk(`${address}/images?limit=2`), [images.slice(0, 2), images.slice(2)]);
  for (const path of ['history?limit=0', 'images?limit=0', 'images?cursor=2147483648']) {
    assert.equal((await open.get(`${address}/${path}`)).status, 422, path);
  }
});

/** Every page of a list, as their links lead from one to the next. */
async function walk(path: string): Promise<unknown[][]> {
  const page = await open.get(path);
  const next = /^<(.+)>; rel="next"$/.exec(page.headers.get('link') ?? '')?.[1];
  return [page.json<unknown[]>(), ...(next === undefined ? [] : await walk(next))];
}

test('a listing that is not there is 404 everywhere', async () => {
  for (const path of ['', '/history', '/images']) {
    const answer = await open.get(`/api/v1/listings/999999${path}`);
    assert.equal(answer.status, 404);
    assert.equal(answer.json<{ code: string }>().code, 'listing_not_found');
  }
});

const key = async (scope: 'ingest' | 'search' | 'admin', sources?: string[]) => {
  const made = await keys.create({
    name: scope,
    scopes: [scope],
    ...(sources === undefined ? {} : { sources }),
  });
  return { authorization: `Bearer ${made.key}` };
};

test('where API keys are required, each route wants its scope', async () => {
  const [ingest, search, admin] = [await key('ingest'), await key('search'), await key('admin')];
  const calls = {
    ingest: (headers: object) =>
      guarded.post('/api/v1/ingest', payloadOf(), headers as Record<string, string>),
    search: (headers: object) =>
      guarded.get('/api/v1/listings/1', headers as Record<string, string>),
    admin: (headers: object) =>
      guarded.get('/api/v1/admin/queue', headers as Record<string, string>),
  };
  for (const [scope, call] of Object.entries(calls)) {
    assert.equal((await call({})).status, 401, scope);
    for (const [name, headers] of Object.entries({ ingest, search, admin })) {
      const allowed = (await call(headers)).status !== 403;
      assert.equal(allowed, name === scope, `${name} for ${scope}`);
    }
  }
  for (const path of ['/health', '/health/live', '/metrics', '/openapi.json']) {
    assert.equal((await guarded.get(path)).status, 200, path);
  }

  const doshka = await key('ingest', ['doshka']);
  assert.equal((await guarded.post('/api/v1/ingest', payloadOf(), doshka)).status, 202);
  const foreign = payloadOf({ source_slug: 'foreign' });
  const refused = await guarded.post('/api/v1/ingest', foreign, doshka);
  assert.equal(refused.status, 403);
  const foreignId = await store(db, foreign);
  assert.equal((await guarded.get(`/api/v1/raw/${foreignId}`, doshka)).status, 404);
  assert.equal((await guarded.get(`/api/v1/raw/${foreignId}`, ingest)).status, 200);
});

test('the scope for a payload is that of its sender; a list of sources is about what is sent', async () => {
  const { raw_id: rawId } = (
    await guarded.post('/api/v1/ingest', payloadOf({ source_slug: 'theirs' }), await key('ingest'))
  ).json<Raw>();
  for (const headers of [await key('search'), await key('admin')]) {
    const answer = await guarded.get(`/api/v1/raw/${rawId}`, headers);
    assert.deepEqual([answer.status, answer.json<{ code: string }>().code], [403, 'forbidden']);
  }
  // Whoever may administrate may do so for all sources, and whoever may search finds those of all.
  await completed(rawId);
  const admin = await key('admin', ['doshka']);
  const retry = await guarded.post(`/api/v1/admin/raw/${rawId}/retry`, undefined, admin);
  assert.equal(retry.json<{ code: string }>().code, 'not_retryable');
  const listed = await guarded.get('/api/v1/admin/raw?status=completed&source_slug=theirs', admin);
  assert.equal(listed.json<unknown[]>().length, 1);
  const search = await key('search', ['doshka']);
  const body = { query: 'квартира', source_slug: 'theirs' };
  assert.equal((await guarded.post('/api/v1/search/fulltext', body, search)).status, 200);
});

const limitOf = async (path: string, body: object) =>
  (await open.post(path, body)).headers.get('ratelimit-limit');

test('each limit of the specification is at its route', async () => {
  const payload = payloadOf({ source_slug: 'limits' });
  assert.equal(await limitOf('/api/v1/ingest', payload), '60');
  assert.equal(await limitOf('/api/v1/search/fulltext', { query: 'квартира' }), '120');
});

const fail = async (source_slug: string) => {
  const { raw_id: id } = await processed(payloadOf({ source_slug }));
  await db
    .updateTable('raw_data')
    .set({ status: 'failed', attempts: 3 })
    .where('id', '=', id)
    .execute();
  return id;
};
const completed = (id: number) =>
  until(`raw record ${id}`, async () => {
    const raw = (await open.get(`/api/v1/raw/${id}`)).json<Raw>();
    return raw.status === 'completed';
  });

test('a failed payload is put back in the queue, one or all', async () => {
  const one = await fail('retry-one');
  // With an empty body of a type, as many clients send it.
  const answer = await open.post(`/api/v1/admin/raw/${one}/retry`, '');
  assert.deepEqual(answer.json(), { raw_id: one, status: 'pending' });
  await completed(one);
  assert.equal((await open.post(`/api/v1/admin/raw/${one}/retry`)).status, 409);
  assert.equal((await open.post('/api/v1/admin/raw/999999/retry')).status, 404);

  const [two, three] = [await fail('retry-all'), await fail('retry-other')];
  const retry = (body: object) => open.post('/api/v1/admin/raw/retry', body);
  assert.deepEqual((await retry({ status: 'failed', source_slug: 'retry-all' })).json(), {
    retried: 1,
  });
  await completed(two);
  assert.deepEqual((await retry({ status: 'failed' })).json(), { retried: 1 });
  await completed(three);
  assert.equal((await retry({ status: 'completed' })).status, 422);
});

test('the queue is counted', async () => {
  await processed(payloadOf());
  const queue = (await open.get('/api/v1/admin/queue')).json<{
    counts: Record<string, number>;
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
  assert.ok(queue.finished_per_minute > 0);
  assert.equal(queue.breaker, 'closed');
});

test('health names its checks, and a full disk is down', async () => {
  type Health = { status: string; checks: Record<string, { status: string }> };
  const health = await open.get('/health');
  assert.equal(health.status, 200);
  assert.equal(health.json<Health>().status, 'ok');
  assert.deepEqual(Object.keys(health.json<Health>().checks).toSorted(), [
    'database',
    'disk',
    'model',
  ]);
  await using full = await startCollector(database, {
    COLLECTOR_WORKER: 'false',
    MIN_FREE_DISK_MB: '999999999999',
  });
  const answer = await full.get('/health');
  assert.equal(answer.status, 503);
  assert.equal(answer.headers.get('retry-after'), '5');
  assert.equal(answer.json<Health>().checks['disk']?.status, 'down');
});

test('a model that is unreachable or hangs degrades, and does not take the service down', async () => {
  const silent = createServer((socket) => socket.resume());
  after(() => silent.close());
  await once(silent.listen(0, '127.0.0.1'), 'listening');
  const { port: silentPort } = silent.address() as AddressInfo;
  for (const port of [9, silentPort]) {
    await using cut = await startCollector(database, {
      COLLECTOR_WORKER: 'false',
      MODEL_MODE: 'openai',
      MODEL_BASE_URL: `http://127.0.0.1:${port}/v1`,
      MODEL_CHAT: 'chat',
      MODEL_EMBEDDING: 'embedding',
    });
    const health = await cut.get('/health');
    assert.equal(health.status, 200);
    const report = health.json<{ status: string; checks: { model: { status: string } } }>();
    assert.equal(report.status, 'degraded');
    assert.equal(report.checks.model.status, 'degraded');
  }
});

test('metrics have every documented name', async () => {
  await processed(payloadOf());
  await open.post('/api/v1/ingest', { source_slug: 'doshka' });
  const { text } = await open.get('/metrics');
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

test('embeddings of another width stop the start, with both widths', async () => {
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

type Operation = {
  tags: string[];
  description?: string;
  security?: object[];
  requestBody?: { content: Record<string, { schema: object }> };
};
type Document = {
  paths: Record<string, Record<string, Operation>>;
  components: {
    schemas: Record<string, { additionalProperties?: boolean; properties: object }>;
    securitySchemes: Record<string, object>;
  };
  tags: { name: string }[];
};

test('the OpenAPI document has every route, and names the schemas of the specification', async () => {
  const { paths, components, tags } = (await openapi()) as Document;
  const { Problem: _, ...named } = components.schemas;
  assert.deepEqual(Object.keys(named).toSorted(), [
    'FulltextSearchRequest',
    'FulltextSearchResponse',
    'FulltextSearchResult',
    'PayloadSchema',
    'SimilarSearchRequest',
    'SimilarSearchResponse',
  ]);
  for (const [path, name] of [
    ['/api/v1/ingest', 'PayloadSchema'],
    ['/api/v1/search/fulltext', 'FulltextSearchRequest'],
    ['/api/v1/search/hybrid', 'FulltextSearchRequest'],
    ['/api/v1/search/similar', 'SimilarSearchRequest'],
  ] as const) {
    const content = paths[path]?.['post']?.requestBody?.content;
    const $ref = `#/components/schemas/${name}`;
    assert.deepEqual(content?.['application/json']?.schema, { $ref }, path);
    assert.equal(named[name]?.additionalProperties, false, name);
  }
  for (const path of [
    '/api/v1/raw/{raw_id}',
    '/api/v1/listings/{id}',
    '/api/v1/listings/{id}/history',
    '/api/v1/listings/{id}/images',
    '/api/v1/images/{sha256}',
    '/api/v1/admin/queue',
    '/api/v1/admin/raw',
    '/api/v1/admin/raw/{raw_id}/retry',
    '/api/v1/admin/raw/retry',
    '/api/v1/admin/raw-data',
    '/api/v1/admin/archive-check',
    '/health',
  ]) {
    assert.ok(path in paths, path);
  }

  const names = tags.map(({ name }) => name);
  assert.deepEqual(names, ['ingest', 'search', 'listings', 'images', 'operations']);
  assert.ok(components.securitySchemes['api_key']);
  for (const [path, operations] of Object.entries(paths)) {
    for (const operation of Object.values(operations)) {
      assert.ok(
        operation.tags.every((tag) => names.includes(tag)),
        path,
      );
      const expected = path.startsWith('/api/') ? [{ api_key: [] }] : undefined;
      assert.deepEqual(operation.security, expected, path);
    }
  }
});

test('the bound of the ranking stands in the OpenAPI document', async () => {
  const { paths, components } = (await openapi()) as Document;
  assert.match(
    paths['/api/v1/search/fulltext']?.['post']?.description ?? '',
    /1000 newest .*`gte`/,
  );
  const response = JSON.stringify(components.schemas['FulltextSearchResponse']?.properties);
  assert.match(response, /`gte`: [^"]*1000/);
});
