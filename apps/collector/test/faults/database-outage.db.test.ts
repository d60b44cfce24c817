import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from '@oselya/db';
import { atEnd } from '@oselya/testing';
import type { Tables } from '../../src/tables.ts';
import { startCollector, documentedRoutes } from '../support/collector.ts';
import { openDatabase, payloadOf } from '../support/pipeline.ts';
import { startCollectors } from './collectors.ts';
import { startFlakyProxy } from './flaky-proxy.ts';
import { putLoad } from './load.ts';
import { randomOf } from './load.ts';
import { repetitions } from '../support/soak.ts';

const database = await openDatabase();
const { url } = database;
const random = randomOf(20_261_121);

/** The embedded database has no connections to cut. */
async function openCuttable(databaseUrl: string) {
  const proxy = await startFlakyProxy(new URL(databaseUrl));
  atEnd(() => proxy.close());
  const between = () => 2 * proxy.connections();
  return { proxy, collectors: await startCollectors(proxy.url, { database, between }) };
}

// All resources open before the first test, since they close after the last registered one.
const cuttable = url === undefined ? undefined : await openCuttable(url);

/** Request options by documented path. */
const BODIES: Readonly<Record<string, unknown>> = {
  '/api/v1/ingest': payloadOf(),
  '/api/v1/search/fulltext': { query: 'квартира' },
  '/api/v1/search/similar': { query: 'квартира' },
  '/api/v1/search/hybrid': { query: 'квартира' },
  '/api/v1/search/matches': { ids: [1] },
  '/api/v1/admin/archive-check': {},
  '/api/v1/admin/raw/retry': { status: 'failed' },
};
const QUERIES: Readonly<Record<string, string>> = {
  '/api/v1/admin/raw': '?status=failed',
  '/api/v1/admin/raw-data': '?older_than_days=1',
};
const addressOf = (path: string) =>
  path.replace('{sha256}', 'ab'.repeat(32)).replace(/\{\w+\}/, '1') + (QUERIES[path] ?? '');

/** Creates a form with a payload and an image. */
function imageForm(): FormData {
  const form = new FormData();
  form.set('metadata', JSON.stringify(payloadOf()));
  return form;
}

async function answerOf(collector: { url: string }, method: string, path: string) {
  const body = BODIES[path];
  const response = await fetch(collector.url + addressOf(path), {
    method: method.toUpperCase(),
    ...(path.endsWith('/with-images') && { body: imageForm() }),
    ...(body !== undefined && {
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }),
  });
  const text = await response.text();
  const { code = '' } = (text.startsWith('{') ? JSON.parse(text) : {}) as { code?: string };
  return { status: response.status, retryAfter: response.headers.get('retry-after'), code, text };
}

test('Without the database every route answers 503, and the ingest 500 (ADR 0009)', async () => {
  const gone = await connect<Tables>({ url });
  await using disconnected = await startCollector({ ...gone, url }, { COLLECTOR_WORKER: 'false' });
  await gone.pool.end();
  const routes = await documentedRoutes(disconnected);
  const ofApi = routes.filter(({ path }) => path.startsWith('/api/v1/'));
  assert.ok(ofApi.length >= 17, `${ofApi.length} routes`);
  for (const { method, path, answers } of ofApi) {
    const { status, retryAfter, code, text } = await answerOf(disconnected, method, path);
    const isIngest = path.startsWith('/api/v1/ingest');
    assert.equal(status, isIngest ? 500 : 503, `${method} ${path}: ${text}`);
    assert.equal(code, isIngest ? 'ingest_failed' : 'unavailable', `${method} ${path}`);
    assert.ok(answers[status]?.includes(code), `${method} ${path} documents ${status} ${code}`);
    if (!isIngest) assert.ok(Number(retryAfter) > 0, `${method} ${path} says when to come again`);
  }
  assert.equal((await disconnected.get('/health/ready')).status, 503);
  assert.equal((await disconnected.get('/health/live')).status, 200);
  const answer = await disconnected.get('/health');
  const health = answer.json<{ status: string; checks: Record<string, { status: string }> }>();
  assert.deepEqual(
    [answer.status, health.status, health.checks['database']?.status],
    [503, 'down', 'down'],
  );
});

if (cuttable !== undefined) {
  const { proxy, collectors } = cuttable;
  const { db } = database;

  test('Randomly broken connections lose and double no payload', async (context) => {
    const load = await putLoad(collectors, db, 'cut');
    await load.untilMoreAccepted();
    for (let cut = 0; cut < repetitions({ soak: 12, ci: 4 }); cut += 1) {
      await load.isInProgress();
      await sleep(random() * 60);
      proxy.cut();
    }
    await load.untilMoreAccepted();
    await load.end();
    // The other worker may rescue a job whose return was lost.
    await load.judge(context, { mostAttempts: 2 });
  });

  test('Silent connections are abandoned and lose and double no payload', async (context) => {
    for (let nth = 0; nth < repetitions({ soak: 2, ci: 1 }); nth += 1) {
      const load = await putLoad(collectors, db, `silent-${nth}`);
      await load.untilMoreAccepted();
      await load.isInProgress();
      await sleep(random() * 50);
      proxy.silence();
      await load.untilMoreAccepted();
      await load.end();
      proxy.forget();
      // A worker whose renewal met two silent connections in a row could not keep its lease.
      await load.judge(context, { mostAttempts: 2 });
    }
  });

  test('A slow database server delays jobs and leaves no open connection', async (context) => {
    proxy.way.delayMs = 100;
    const load = await putLoad(collectors, db, 'slow');
    await load.untilMoreAccepted();
    proxy.way.delayMs = 0;
    await load.end();
    await load.judge(context);
  });

  test('A collector closes every connection when it ends', () => collectors.close());
}
