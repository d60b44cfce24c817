import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createApiKeys } from '../../src/access/api-keys.ts';
import { startCollector } from '../support/collector.ts';
import { openDatabase, store } from '../support/database.ts';
import { payloadOf } from '../support/payload.ts';

const database = await openDatabase();
const { db } = database;
const guarded = await startCollector(database, {
  COLLECTOR_AUTH: 'required',
  COLLECTOR_WORKER: 'false',
});
const keys = createApiKeys({ db });

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

test('metrics are for holders of the token, where there is one', async () => {
  const app = await startCollector(database, { METRICS_TOKEN: 'a-token-of-metrics' });
  assert.equal((await app.get('/metrics')).status, 401);
  const headers = { authorization: 'Bearer a-token-of-metrics' };
  assert.equal((await app.get('/metrics', headers)).status, 200);
  await app.close();
});

test('the scope for a payload is that of its sender; a list of sources is about what is sent', async () => {
  const { raw_id: rawId } = (
    await guarded.post('/api/v1/ingest', payloadOf({ source_slug: 'theirs' }), await key('ingest'))
  ).json<{ raw_id: number }>();
  for (const headers of [await key('search'), await key('admin')]) {
    const answer = await guarded.get(`/api/v1/raw/${rawId}`, headers);
    assert.deepEqual([answer.status, answer.json<{ code: string }>().code], [403, 'forbidden']);
  }
  // Whoever may administrate may do so for all sources, and whoever may search finds those of all.
  await db.updateTable('raw_data').set({ status: 'completed' }).where('id', '=', rawId).execute();
  const admin = await key('admin', ['doshka']);
  const retry = await guarded.post(`/api/v1/admin/raw/${rawId}/retry`, undefined, admin);
  assert.equal(retry.json<{ code: string }>().code, 'not_retryable');
  const listed = await guarded.get('/api/v1/admin/raw?status=completed&source_slug=theirs', admin);
  assert.equal(listed.json<unknown[]>().length, 1);
  const search = await key('search', ['doshka']);
  const body = { query: 'квартира', source_slug: 'theirs' };
  assert.equal((await guarded.post('/api/v1/search/fulltext', body, search)).status, 200);
});
