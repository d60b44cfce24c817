import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRateLimit } from '@oselya/kit';
import { createApiKeyStore, type Scope } from '../../src/access/api-keys.ts';
import { guardRoutes, rejectCrossSiteRequests } from '../../src/access/guard.ts';
import { startCollector } from '../support/collector.ts';
import {
  createTestServer,
  openDatabase,
  createPayload,
  store,
  updateRawRecord,
} from '../support/pipeline.ts';

const database = await openDatabase();
const { db, pool } = database;
const collector = await startCollector(database, {
  COLLECTOR_AUTH: 'required',
  COLLECTOR_WORKER: 'false',
});
const keys = createApiKeyStore({ db });

async function createHeaders(scope: Scope, sources?: string[]) {
  const apiKey = await keys.create({ name: scope, scopes: [scope], ...(sources && { sources }) });
  return { authorization: `Bearer ${apiKey.key}` };
}

test('Each route requires its scope if API keys are required', async () => {
  const ingest = await createHeaders('ingest');
  const search = await createHeaders('search');
  const admin = await createHeaders('admin');
  type Call = (headers: Record<string, string>) => Promise<{ status: number }>;
  const calls: [scope: Scope, call: Call][] = [
    ['ingest', (headers) => collector.post('/api/v1/ingest', createPayload(), headers)],
    ['search', (headers) => collector.get('/api/v1/listings/1', headers)],
    ['admin', (headers) => collector.get('/api/v1/admin/queue', headers)],
    [
      'admin',
      (headers) => collector.put('/api/v1/listings/1/duplicates/2', { verdict: 'same' }, headers),
    ],
    ['admin', (headers) => collector.delete('/api/v1/listings/1/duplicates/2', headers)],
  ];
  for (const [scope, call] of calls) {
    assert.equal((await call({})).status, 401, scope);
    for (const [name, headers] of Object.entries({ ingest, search, admin })) {
      const isAllowed = (await call(headers)).status !== 403;
      assert.equal(
        isAllowed,
        name === scope,
        `a key with the scope ${name} on a route of ${scope}`,
      );
    }
  }
  for (const path of ['/health', '/health/live', '/metrics', '/openapi.json']) {
    assert.equal((await collector.get(path)).status, 200, path);
  }
});

test('A malformed authorization is 401', async () => {
  const { key } = await keys.create({ name: 'admin', scopes: ['admin'] });
  const path = '/api/v1/admin/queue';
  assert.equal((await collector.get(path, { authorization: `bearer ${key}` })).status, 200);
  for (const authorization of [
    '',
    'Bearer',
    'Bearer no-such-key',
    `Basic ${key}`,
    key,
    `Bearer ${key} ${key}`,
  ]) {
    const response = await collector.get(path, { authorization });
    assert.equal(response.status, 401, authorization);
    assert.equal(response.json<{ code: string }>().code, 'unauthorized');
    assert.equal(response.headers.get('www-authenticate'), 'Bearer');
    assert.equal(response.headers.get('cache-control'), 'no-store');
  }
});

test('A key with a list of sources is limited to the payloads and records of these sources', async () => {
  const doshkaHeaders = await createHeaders('ingest', ['doshka']);
  assert.equal(
    (await collector.post('/api/v1/ingest', createPayload(), doshkaHeaders)).status,
    202,
  );
  const foreignPayload = createPayload({ source_slug: 'theirs' });
  const denial = await collector.post('/api/v1/ingest', foreignPayload, doshkaHeaders);
  assert.deepEqual([denial.status, denial.json<{ code: string }>().code], [403, 'forbidden']);
  const rawId = await store(db, foreignPayload);
  assert.equal((await collector.get(`/api/v1/raw/${rawId}`, doshkaHeaders)).status, 404);
  assert.equal(
    (await collector.get(`/api/v1/raw/${rawId}`, await createHeaders('ingest'))).status,
    200,
  );
  const readRaw = async (scope: Scope, sources?: string[]) =>
    collector.get(`/api/v1/raw/${rawId}`, await createHeaders(scope, sources));
  assert.equal((await readRaw('search')).status, 403);
  assert.equal((await readRaw('admin', ['doshka'])).status, 404);
  assert.ok(!('payload' in (await readRaw('ingest')).json<object>()));
  const { payload } = (await readRaw('admin')).json<{ payload: object }>();
  assert.deepEqual(payload, foreignPayload, 'an administrator sees the payload');
  // The list limits neither administration nor search.
  await updateRawRecord(db, rawId, { status: 'completed' });
  const admin = await createHeaders('admin', ['doshka']);
  const retry = await collector.post(`/api/v1/admin/raw/${rawId}/retry`, undefined, admin);
  assert.equal(retry.json<{ code: string }>().code, 'not_retryable');
  const search = await createHeaders('search', ['doshka']);
  const body = { query: 'квартира', source_slug: 'theirs' };
  assert.equal((await collector.post('/api/v1/search/fulltext', body, search)).status, 200);
});

test('The metrics require the configured token', async () => {
  const app = await startCollector(database, { METRICS_TOKEN: 'a-token-of-metrics' });
  assert.equal((await app.get('/metrics')).status, 401);
  const headers = { authorization: 'Bearer a-token-of-metrics' };
  assert.equal((await app.get('/metrics', headers)).status, 200);
  await app.close();
});

test('Only the hash of a key is stored', async () => {
  const { key, ...apiKey } = await keys.create({ name: 'scraper', scopes: ['ingest'] });
  assert.deepEqual(await keys.verify(key), apiKey);
  const storedKeys = await db.selectFrom('api_keys').selectAll().execute();
  assert.ok(!JSON.stringify(storedKeys).includes(key));
  assert.equal(await keys.verify(`${key}x`), undefined);
  assert.equal(await keys.verify(''), undefined);
});

test('A revoked key is rejected immediately and stays in the list', async () => {
  const { id, key } = await keys.create({ name: 'old', scopes: ['admin'], sources: ['doshka'] });
  assert.deepEqual((await keys.verify(key))?.source_slugs, ['doshka']);
  assert.equal(await keys.revoke(id), true);
  assert.equal(await keys.verify(key), undefined);
  assert.equal(await keys.revoke(id), false);
  assert.equal(await keys.revoke('no such id'), false);
  const listedKey = (await keys.list()).find((apiKey) => apiKey.id === id);
  assert.ok(listedKey?.revoked_at instanceof Date);
});

test('The list shows when a key was last used', async () => {
  const { id, key } = await keys.create({ name: 'used', scopes: ['search'] });
  const getLastUse = async () =>
    (await keys.list()).find((apiKey) => apiKey.id === id)?.last_used_at;
  assert.equal(await getLastUse(), null);
  await keys.verify(key);
  const first = await getLastUse();
  assert.ok(first instanceof Date);
  await keys.verify(key);
  assert.deepEqual(await getLastUse(), first, 'at most one write a minute');
});

test('An administrator lists, creates and revokes keys, and no key creates a less limited one', async () => {
  const path = '/api/v1/admin/api-keys';
  const admin = await createHeaders('admin');
  const body = { name: 'scraper 7', scopes: ['ingest'], source_slugs: ['doshka'] };
  const creation = await collector.post(path, body, admin);
  assert.deepEqual([creation.status, creation.headers.get('cache-control')], [201, 'no-store']);
  const { key, id, ...newKey } = creation.json<{ key: string; id: string }>();
  assert.deepEqual(newKey, body);
  const scraper = { authorization: `Bearer ${key}` };
  assert.equal((await collector.post('/api/v1/ingest', createPayload(), scraper)).status, 202);

  type ListedKey = Record<string, unknown> & { id: string };
  const findListed = async () => {
    const list = await collector.get(path, admin);
    assert.ok(!list.text.includes(key) && !list.text.includes('key_hash'));
    return list.json<ListedKey[]>().find((listedKey) => listedKey.id === id) ?? assert.fail();
  };
  const { created_at, last_used_at, ...listed } = await findListed();
  assert.deepEqual(listed, { id, ...body, revoked_at: null });
  for (const time of [created_at, last_used_at]) assert.ok(Date.parse(String(time)) > 0);

  for (const headers of [scraper, await createHeaders('search')]) {
    assert.equal((await collector.get(path, headers)).status, 403);
    assert.equal((await collector.post(path, body, headers)).status, 403);
    assert.equal((await collector.delete(`${path}/${id}`, headers)).status, 403);
  }
  const limitedAdmin = await createHeaders('admin', ['doshka']);
  for (const [source_slugs, status] of [
    [['doshka'], 201],
    [['doshka', 'theirs'], 403],
    [undefined, 403],
  ] as const) {
    const response = await collector.post(path, { ...body, source_slugs }, limitedAdmin);
    assert.equal(response.status, status, JSON.stringify(source_slugs));
  }
  for (const change of [
    { name: ' ' },
    { name: 'a\tb' },
    { name: 'x'.repeat(201) },
    { scopes: [] },
    { scopes: ['ingest', 'ingest'] },
    { scopes: ['root'] },
    { source_slugs: [] },
    { source_slugs: ['Doshka'] },
    { id: 'chosen' },
  ]) {
    const { status } = await collector.post(path, { ...body, ...change }, admin);
    assert.equal(status, 422, JSON.stringify(change));
  }

  assert.deepEqual((await collector.delete(`${path}/${id}`, admin)).json(), { id });
  assert.equal((await collector.post('/api/v1/ingest', createPayload(), scraper)).status, 401);
  assert.ok((await findListed())['revoked_at']);
  for (const unknownId of [id, 'missing']) {
    const response = await collector.delete(`${path}/${unknownId}`, admin);
    assert.equal(response.json<{ code: string }>().code, 'api_key_not_found');
  }
});

test('A route without a scope prevents startup', async () => {
  const app = await createTestServer();
  await assert.rejects(
    async () =>
      app.register(async (api) => {
        guardRoutes(api, undefined);
        api.get('/forgotten', () => ({}));
      }),
    /does not declare its scope/,
  );
});

async function serveUnguarded(isLoopbackOnly: boolean) {
  const app = await createTestServer();
  rejectCrossSiteRequests(app, { isLoopbackOnly });
  app.get('/', () => 'read');
  app.post('/', () => 'changed');
  return app;
}

test('Without API keys, changes from other pages and unknown hosts are rejected', async () => {
  const localServer = await serveUnguarded(true);
  const openServer = await serveUnguarded(false);
  const ownHost = '127.0.0.1:8001';

  for (const [method, headers, localStatus, openStatus] of [
    ['GET', { host: ownHost }, 200, 200],
    ['GET', { host: 'localhost:8001' }, 200, 200],
    ['GET', { host: '[::1]:8001' }, 200, 200],
    ['GET', { host: 'evil.test' }, 421, 200],
    ['GET', { host: '127.0.0.1.evil.test' }, 421, 200],
    ['POST', { host: 'evil.test', origin: 'http://evil.test' }, 421, 200],
    ['POST', { host: ownHost }, 200, 200],
    ['POST', { host: ownHost, origin: 'http://127.0.0.1:8001' }, 200, 200],
    ['POST', { host: ownHost, origin: 'http://127.0.0.1:8000' }, 403, 403],
    ['POST', { host: ownHost, origin: 'null' }, 403, 403],
    ['POST', { host: ownHost, 'sec-fetch-site': 'same-site' }, 403, 403],
    ['POST', { host: ownHost, 'sec-fetch-site': 'cross-site' }, 403, 403],
    ['POST', { host: ownHost, 'sec-fetch-site': 'same-origin' }, 200, 200],
    ['GET', { host: ownHost, 'sec-fetch-site': 'cross-site' }, 200, 200],
  ] as const) {
    const title = `${method} ${JSON.stringify(headers)}`;
    assert.equal(
      (await localServer.inject({ method, url: '/', headers })).statusCode,
      localStatus,
      title,
    );
    assert.equal(
      (await openServer.inject({ method, url: '/', headers })).statusCode,
      openStatus,
      title,
    );
  }
});

test('The limit of a key holds over concurrent requests of several processes', async () => {
  const processes = Array.from({ length: 3 }, () =>
    createRateLimit({ pool, table: 'rate_limits', name: 'shared', perMinute: 10 }),
  );
  const usePromises = processes.flatMap((limit) =>
    Array.from({ length: 10 }, () => limit('a key')),
  );
  const outcomes = await Promise.allSettled(usePromises);
  const rejections = outcomes.filter((outcome) => outcome.status === 'rejected');
  assert.equal(rejections.length, 20);
  for (const { reason } of rejections) assert.equal(reason.code, 'rate_limited');
  assert.equal((await processes[0]?.('another key'))?.['ratelimit-remaining'], '9');
  const limitOther = createRateLimit({ pool, table: 'rate_limits', name: 'other', perMinute: 10 });
  assert.equal((await limitOther('a key'))['ratelimit-remaining'], '9');
});

test('Only a key with the scope on_behalf has limits for each user that it names', async () => {
  for (const [scopes, remainingCounts] of [
    [
      ['search', 'on_behalf'],
      ['119', '119', '118'],
    ],
    [['search'], ['119', '118', '117']],
  ] as const) {
    const { key } = await keys.create({ name: 'assistant', scopes });
    for (const [index, user] of ['user-1', 'user-2', 'user-1'].entries()) {
      const headers = { authorization: `Bearer ${key}`, 'x-on-behalf-of': user };
      const response = await collector.post('/api/v1/search/fulltext', { query: 'а' }, headers);
      assert.equal(response.headers.get('ratelimit-remaining'), remainingCounts[index]);
    }
  }
});

test('A failed database fails the request instead of letting it through', async () => {
  await db.schema.alterTable('rate_limits').renameTo('elsewhere').execute();
  const limit = createRateLimit({ pool, table: 'rate_limits', name: 'failing', perMinute: 1 });
  await assert.rejects(limit('key'), { code: 'unavailable', status: 503 });
  await db.schema.alterTable('elsewhere').renameTo('rate_limits').execute();
  await limit('key');
});
