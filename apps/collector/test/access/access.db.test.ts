import assert from 'node:assert/strict';
import { ProblemError, createLogger, createRateLimit, createServer } from '@oselya/kit';
import { after, test } from 'node:test';
import { createApiKeys, type ApiKey, type ApiKeys } from '../../src/access/api-keys.ts';
import { guardRoutes, mayUseSource, rejectOtherPages } from '../../src/access/guard.ts';
import { startCollector } from '../support/collector.ts';
import { openDatabase, store, payloadOf } from '../support/pipeline.ts';

const database = await openDatabase();
const { db } = database;
const guarded = await startCollector(database, {
  COLLECTOR_AUTH: 'required',
  COLLECTOR_WORKER: 'false',
});
const keys = createApiKeys({ db });

const headersOf = async (scope: 'ingest' | 'search' | 'admin', sources?: string[]) => {
  const made = await keys.create({
    name: scope,
    scopes: [scope],
    ...(sources === undefined ? {} : { sources }),
  });
  return { authorization: `Bearer ${made.key}` };
};

test('where API keys are required, each route wants its scope', async () => {
  const [ingest, search, admin] = [
    await headersOf('ingest'),
    await headersOf('search'),
    await headersOf('admin'),
  ];
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

  const doshka = await headersOf('ingest', ['doshka']);
  assert.equal((await guarded.post('/api/v1/ingest', payloadOf(), doshka)).status, 202);
  const foreign = payloadOf({ source_slug: 'foreign' });
  const refused = await guarded.post('/api/v1/ingest', foreign, doshka);
  assert.equal(refused.status, 403);
  const foreignId = await store(db, foreign);
  assert.equal((await guarded.get(`/api/v1/raw/${foreignId}`, doshka)).status, 404);
  assert.equal((await guarded.get(`/api/v1/raw/${foreignId}`, ingest)).status, 200);
});

test('metrics are for holders of the token, where there is one', async () => {
  const app = await startCollector(database, { METRICS_TOKEN: 'a-token-of-metrics' });
  assert.equal((await app.get('/metrics')).status, 401);
  const headers = { authorization: 'Bearer a-token-of-metrics' };
  assert.equal((await app.get('/metrics', headers)).status, 200);
  await app.close();
});

test('the scope for a payload is that of its sender; a list of sources is about what is sent', async () => {
  const { raw_id: rawId } = (
    await guarded.post(
      '/api/v1/ingest',
      payloadOf({ source_slug: 'theirs' }),
      await headersOf('ingest'),
    )
  ).json<{ raw_id: number }>();
  for (const headers of [await headersOf('search'), await headersOf('admin')]) {
    const answer = await guarded.get(`/api/v1/raw/${rawId}`, headers);
    assert.deepEqual([answer.status, answer.json<{ code: string }>().code], [403, 'forbidden']);
  }
  // Whoever may administrate may do so for all sources, and whoever may search finds those of all.
  await db.updateTable('raw_data').set({ status: 'completed' }).where('id', '=', rawId).execute();
  const admin = await headersOf('admin', ['doshka']);
  const retry = await guarded.post(`/api/v1/admin/raw/${rawId}/retry`, undefined, admin);
  assert.equal(retry.json<{ code: string }>().code, 'not_retryable');
  const listed = await guarded.get('/api/v1/admin/raw?status=completed&source_slug=theirs', admin);
  assert.equal(listed.json<unknown[]>().length, 1);
  const search = await headersOf('search', ['doshka']);
  const body = { query: 'квартира', source_slug: 'theirs' };
  assert.equal((await guarded.post('/api/v1/search/fulltext', body, search)).status, 200);
});

test('a key is given once, and only its hash is kept', async () => {
  const { key, ...made } = await keys.create({ name: 'scraper', scopes: ['ingest'] });
  assert.deepEqual(await keys.verify(key), made);
  const stored = await db.selectFrom('api_keys').selectAll().execute();
  assert.ok(!JSON.stringify(stored).includes(key));
  assert.equal(await keys.verify(`${key}x`), undefined);
  assert.equal(await keys.verify(''), undefined);
});

test('a revoked key ends at once, and stays in the list', async () => {
  const { id, key } = await keys.create({ name: 'old', scopes: ['admin'], sources: ['doshka'] });
  assert.deepEqual((await keys.verify(key))?.source_slugs, ['doshka']);
  assert.equal(await keys.revoke(id), true);
  assert.equal(await keys.verify(key), undefined);
  assert.equal(await keys.revoke(id), false, 'once');
  assert.equal(await keys.revoke('no such id'), false);
  const listed = (await keys.list()).find((one) => one.id === id);
  assert.ok(listed?.revoked_at instanceof Date);
});

test('the list tells when a key was last used', async () => {
  const { id, key } = await keys.create({ name: 'used', scopes: ['search'] });
  const used = async () => (await keys.list()).find((one) => one.id === id)?.last_used_at;
  assert.equal(await used(), null);
  await keys.verify(key);
  const first = await used();
  assert.ok(first instanceof Date);
  await keys.verify(key);
  assert.deepEqual(await used(), first, 'at most one write a minute');
});

const { pool } = database;

test('uses are counted for each key, together for all processes and at once', async () => {
  const processes = Array.from({ length: 3 }, () =>
    createRateLimit({ pool, table: 'rate_limits', name: 'shared', perMinute: 10 }),
  );
  const uses = processes.flatMap((limit) => Array.from({ length: 10 }, () => limit('a key')));
  const outcomes = await Promise.allSettled(uses);
  const refused = outcomes.filter((outcome) => outcome.status === 'rejected');
  assert.equal(refused.length, 20);
  for (const { reason } of refused) assert.equal(reason.code, 'rate_limited');
  assert.equal((await processes[0]?.('another key'))?.['ratelimit-remaining'], '9');
});

test('a refusal says when to come back, and then it works again', async () => {
  const limit = createRateLimit({ pool, table: 'rate_limits', name: 'return', perMinute: 1 });
  const headers = await limit('key');
  assert.deepEqual([headers['ratelimit-limit'], headers['ratelimit-remaining']], ['1', '0']);
  await assert.rejects(limit('key'), (error) => {
    assert.ok(error instanceof ProblemError);
    assert.equal(error.status, 429);
    assert.equal(error.headers['retry-after'], error.headers['ratelimit-reset']);
    assert.match(error.detail, /No more than 1 .* wait for \d+ s/);
    return true;
  });
  await db
    .updateTable('rate_limits')
    .set({ expire: Date.now() - 1 })
    .where('key', '=', 'return:key')
    .execute();
  assert.equal((await limit('key'))['ratelimit-remaining'], '0');
});

test('a limit may be for a day, and of something else than requests', async () => {
  const limit = createRateLimit({
    pool,
    table: 'rate_limits',
    name: 'daily',
    perDay: 1,
    what: 'new sources',
  });
  const headers = await limit('key');
  assert.equal(headers['ratelimit-limit'], '1');
  assert.ok(Number(headers['ratelimit-reset']) > 3600);
  await assert.rejects(limit('key'), /No more than 1 new sources a day: wait for \d+ s/);
});

test('0 is no limit and counts nothing', async () => {
  const limit = createRateLimit({ pool, table: 'rate_limits', name: 'unlimited', perMinute: 0 });
  for (let use = 0; use < 5; use += 1) assert.deepEqual(await limit('key'), {});
  const counted = await db
    .selectFrom('rate_limits')
    .selectAll()
    .where('key', 'like', 'unlimited:%')
    .execute();
  assert.deepEqual(counted, []);
});

test('a database that fails is an error, not a free pass', async () => {
  await db.schema.alterTable('rate_limits').renameTo('elsewhere').execute();
  const limit = createRateLimit({ pool, table: 'rate_limits', name: 'failing', perMinute: 1 });
  await assert.rejects(limit('key'), { code: 'unavailable', status: 503 });
  await db.schema.alterTable('elsewhere').renameTo('rate_limits').execute();
  await limit('key');
});

const known: Record<string, ApiKey> = {
  'key-ingest': { id: '1', name: 'a', scopes: ['ingest'], source_slugs: ['doshka'] },
  'key-all': { id: '2', name: 'b', scopes: ['ingest', 'search', 'admin'], source_slugs: null },
};

async function server(verifier: Pick<ApiKeys, 'verify'> | undefined) {
  const app = await createServer({
    log: createLogger({ level: 'silent', service: 'test' }),
    bodyLimit: 1024,
    openapi: { title: 'Test', description: 'A test.', version: '1' },
  });
  await app.register(async (api) => {
    guardRoutes(api, verifier);
    api.get('/ingest/:source', { config: { scope: 'ingest' } }, (request) => ({
      allowed: mayUseSource(request, (request.params as { source: string }).source),
    }));
    api.get('/admin', { config: { scope: 'admin' } }, () => ({}));
  });
  return app;
}

const guardedByTest = await server({ verify: async (key) => known[key] });
const open = await server(undefined);

const get = (url: string, authorization?: string) =>
  guardedByTest.inject({ url, headers: authorization === undefined ? {} : { authorization } });

test('A request without a valid key is 401', async () => {
  for (const authorization of [
    undefined,
    '',
    'Bearer',
    'Bearer ',
    'Bearer no-such-key',
    'Basic a2V5LWFsbDo=',
    'key-all',
    'Bearer key-all key-all',
  ]) {
    const answer = await get('/admin', authorization);
    assert.deepEqual([answer.statusCode, answer.json().code], [401, 'unauthorized'], authorization);
    assert.equal(answer.headers['www-authenticate'], 'Bearer');
    assert.equal(answer.headers['cache-control'], 'no-store');
  }
});

test('a key needs the scope that the route declares', async () => {
  assert.equal((await get('/admin', 'Bearer key-all')).statusCode, 200);
  assert.equal((await get('/ingest/doshka', 'bearer key-ingest')).statusCode, 200);
  const answer = await get('/admin', 'Bearer key-ingest');
  assert.equal(answer.statusCode, 403);
  assert.equal(answer.json().code, 'forbidden');
});

const allowed = async (source: string, key: string) =>
  (await get(`/ingest/${source}`, `Bearer ${key}`)).json().allowed;

test('a key with a list of sources is for those only', async () => {
  assert.equal(await allowed('doshka', 'key-ingest'), true);
  assert.equal(await allowed('other', 'key-ingest'), false);
  assert.equal(await allowed('other', 'key-all'), true);
});

test('while keys are off everything is let through', async () => {
  assert.equal((await open.inject({ url: '/admin' })).statusCode, 200);
  assert.deepEqual((await open.inject({ url: '/ingest/any' })).json(), { allowed: true });
});

test('a route that does not declare its scope stops the start', async () => {
  const app = await server(undefined);
  await assert.rejects(
    async () =>
      app.register(async (api) => {
        guardRoutes(api, undefined);
        api.get('/forgotten', () => ({}));
      }),
    /does not declare its scope/,
  );
});

async function serve(onlyThisMachine: boolean) {
  const app = await createServer({
    log: createLogger({ level: 'silent', service: 'test' }),
    bodyLimit: 1000,
    openapi: { title: 'Test', description: 'A test.', version: '1' },
  });
  rejectOtherPages(app, { onlyThisMachine });
  app.get('/', () => 'read');
  app.post('/', () => 'changed');
  after(() => app.close());
  return app;
}

const local = await serve(true);
const openToOthers = await serve(false);
const own = '127.0.0.1:8001';

test('Other sites and hosts are denied while keys are off', async () => {
  for (const [method, headers, onLocal, onOpen] of [
    ['GET', { host: own }, 200, 200],
    ['GET', { host: 'localhost:8001' }, 200, 200],
    ['GET', { host: '[::1]:8001' }, 200, 200],
    ['GET', { host: 'evil.test' }, 421, 200],
    ['GET', { host: '127.0.0.1.evil.test' }, 421, 200],
    ['POST', { host: 'evil.test', origin: 'http://evil.test' }, 421, 200],
    ['POST', { host: own }, 200, 200],
    ['POST', { host: own, origin: 'http://127.0.0.1:8001' }, 200, 200],
    ['POST', { host: own, origin: 'http://127.0.0.1:8000' }, 403, 403],
    ['POST', { host: own, origin: 'null' }, 403, 403],
    ['POST', { host: own, 'sec-fetch-site': 'same-site' }, 403, 403],
    ['POST', { host: own, 'sec-fetch-site': 'cross-site' }, 403, 403],
    ['POST', { host: own, 'sec-fetch-site': 'same-origin' }, 200, 200],
    ['GET', { host: own, 'sec-fetch-site': 'cross-site' }, 200, 200],
  ] as const) {
    assert.equal((await local.inject({ method, url: '/', headers })).statusCode, onLocal);
    assert.equal((await openToOthers.inject({ method, url: '/', headers })).statusCode, onOpen);
  }
});
