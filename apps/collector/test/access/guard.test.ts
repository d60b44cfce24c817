import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger, createServer } from '@oselya/kit';
import type { ApiKey, ApiKeys } from '../../src/access/api-keys.ts';
import { guardRoutes, mayUseSource } from '../../src/access/guard.ts';

const known: Record<string, ApiKey> = {
  'key-ingest': { id: '1', name: 'a', scopes: ['ingest'], source_slugs: ['doshka'] },
  'key-all': { id: '2', name: 'b', scopes: ['ingest', 'search', 'admin'], source_slugs: null },
};

async function server(keys: Pick<ApiKeys, 'verify'> | undefined) {
  const app = await createServer({
    log: createLogger({ level: 'silent', service: 'test' }),
    bodyLimit: 1024,
    openapi: { title: 'Test', description: 'A test.', version: '1' },
  });
  await app.register(async (api) => {
    guardRoutes(api, keys);
    api.get('/ingest/:source', { config: { scope: 'ingest' } }, (request) => ({
      allowed: mayUseSource(request, (request.params as { source: string }).source),
    }));
    api.get('/admin', { config: { scope: 'admin' } }, () => ({}));
  });
  return app;
}

const guarded = await server({ verify: async (key) => known[key] });
const open = await server(undefined);

const get = (url: string, authorization?: string) =>
  guarded.inject({ url, headers: authorization === undefined ? {} : { authorization } });

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
  test(`${JSON.stringify(authorization)} is 401`, async () => {
    const answer = await get('/admin', authorization);
    assert.equal(answer.statusCode, 401);
    assert.equal(answer.json().code, 'unauthorized');
    assert.equal(answer.headers['www-authenticate'], 'Bearer');
    assert.equal(answer.headers['cache-control'], 'no-store');
  });
}

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
