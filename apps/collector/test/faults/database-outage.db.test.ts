import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from '@oselya/db';
import { atEnd } from '@oselya/db/testing';
import type { Tables } from '../../src/database/tables.ts';
import { startCollector } from '../support/collector.ts';
import { openDatabase } from '../support/database.ts';
import { payloadOf } from '../support/payload.ts';
import { startCollectors } from './collectors.ts';
import { startFlakyProxy } from './flaky-proxy.ts';
import { putLoad } from './put-load.ts';
import { randomOf } from './random.ts';

const database = await openDatabase();
const { url } = database;
const random = randomOf(20_261_121);

/** What can be cut or slow is a connection to a server; the embedded database is in the process. */
async function openCuttable(databaseUrl: string) {
  const proxy = await startFlakyProxy(new URL(databaseUrl));
  atEnd(() => proxy.close());
  const between = () => 2 * proxy.connections();
  return { proxy, collectors: await startCollectors(proxy.url, { database, between }) };
}

// All is opened before the first test begins: when the last one that is known ends, everything is closed.
const cuttable = url === undefined ? undefined : await openCuttable(url);

test('without its database the collector answers 503, and the ingest 500 (ADR 0009)', async () => {
  const gone = await connect<Tables>({ url });
  await using bereft = await startCollector({ ...gone, url }, { COLLECTOR_WORKER: 'false' });
  await gone.pool.end();
  const query = { query: 'квартира' };
  for (const [method, path, body] of [
    ['post', '/api/v1/search/fulltext', query],
    ['post', '/api/v1/search/similar', query],
    ['post', '/api/v1/search/hybrid', query],
    ['get', '/api/v1/raw/1', undefined],
    ['get', '/api/v1/listings/1', undefined],
    ['get', '/api/v1/admin/queue', undefined],
    ['get', '/health', undefined],
  ] as const) {
    const answer = await (method === 'get' ? bereft.get(path) : bereft.post(path, body));
    assert.equal(answer.status, 503, `${path}: ${answer.text}`);
  }
  assert.equal((await bereft.get('/health/ready')).status, 503);
  assert.equal((await bereft.get('/health/live')).status, 200);
  const health = (await bereft.get('/health')).json<{
    status: string;
    checks: Record<string, { status: string }>;
  }>();
  assert.deepEqual([health.status, health.checks['database']?.status], ['down', 'down']);
  const refused = await bereft.post('/api/v1/ingest', payloadOf());
  assert.equal(refused.status, 500, refused.text);
  assert.match(refused.text, /"ingest_failed"/);
});

if (cuttable !== undefined) {
  const { proxy, collectors } = cuttable;
  const { db } = database;

  test('connections that break at random moments lose and double nothing', async (context) => {
    const load = await putLoad(collectors, db, 'cut');
    await load.goesOn();
    for (let cut = 0; cut < 12; cut += 1) {
      await load.isInProgress();
      await sleep(random() * 60);
      proxy.cut();
    }
    await load.goesOn();
    await load.end();
    await load.judge(context);
  });

  for (const source of ['silent-1', 'silent-2']) {
    test(`connections that go silent are given up, and lose and double nothing (${source})`, async (context) => {
      const load = await putLoad(collectors, db, source);
      await load.goesOn();
      await load.isInProgress();
      await sleep(random() * 50);
      proxy.silence();
      await load.goesOn();
      await load.end();
      proxy.forget();
      // Whose renewal met two silent ones, one after the other, could not keep its lease.
      await load.judge(context, { mostAttempts: 2 });
    });
  }

  test('a slow server makes all slower, and leaves no connection behind', async (context) => {
    proxy.way.delayMs = 100;
    const load = await putLoad(collectors, db, 'slow');
    await load.goesOn();
    proxy.way.delayMs = 0;
    await load.end();
    await load.judge(context);
  });

  test('a collector that ends leaves no connection', () => collectors.close());
}
