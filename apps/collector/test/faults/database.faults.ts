import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { connect } from '@oselya/db';
import { openFolder, deferCleanup, findFreePort, until, getRepetitions } from '@oselya/testing';
import type { TestDatabase } from '@oselya/testing/database';
import type pg from 'pg';
import type { Tables } from '../../src/tables.ts';
import {
  readDocumentedRoutes,
  createForm,
  sendForm,
  startCollector,
} from '../support/collector.ts';
import { createImage, serveImages } from '../support/images.ts';
import {
  countConnections,
  setApplicationName,
  openDatabase,
  createPayload,
  createResourceLeakCheck,
} from '../support/pipeline.ts';
import { createRandom, startLoad } from './load.ts';
import { startProxy } from './proxy.ts';

const CONNECTION_NAME = 'collector-in-trouble';
/** Factor that shortens the timeouts of the database, its idle connections and the leases equally. */
const TIME_FACTOR = 1 / 12;
const TIMEOUTS_MS = {
  query_timeout: 30_000,
  statement_timeout: 31_000,
  idle_in_transaction_session_timeout: 60_000,
};
const COLLECTOR_COUNT = 2;
/** Connection pools of all collectors. */
const allPools: pg.Pool[] = [];

/**
 * Starts two collectors with workers on a faulty database.
 * @param database The same database through a stable connection.
 * @param countSockets Counts the open sockets of the proxy, which runs in this process.
 */
async function startCollectors(
  databaseUrl: string,
  database: Pick<TestDatabase<Tables>, 'db' | 'pool' | 'url'>,
  countSockets = () => 0,
) {
  const url = new URL(setApplicationName(databaseUrl, CONNECTION_NAME));
  for (const [name, ms] of Object.entries(TIMEOUTS_MS)) {
    url.searchParams.set(name, String(Math.round(ms * TIME_FACTOR)));
  }
  const folder = await openFolder();
  const host = await serveImages();
  const resources = new AsyncDisposableStack();
  deferCleanup(() => resources.disposeAsync());
  const pools: pg.Pool[] = [];
  const urls: string[] = [];
  for (let index = 0; index < COLLECTOR_COUNT; index += 1) {
    const connection = await connect<Tables>({ url: url.href, maxConnections: 24 });
    resources.defer(connection.close);
    connection.pool.options.idleTimeoutMillis = 10_000 * TIME_FACTOR;
    const collector = await startCollector(
      { ...connection, url: url.href },
      {
        DATA_DIR: folder,
        COLLECTOR_INGEST_PER_MINUTE: '0',
        COLLECTOR_LEASE_SECONDS: String(60 * TIME_FACTOR),
        SSRF_ALLOW: '127.0.0.1',
      },
    );
    resources.defer(collector.close);
    pools.push(connection.pool);
    allPools.push(connection.pool);
    urls.push(collector.url);
    // The first request opens resources that remain open, so it precedes the leak checks.
    const bytes = Uint8Array.from(await createImage('png', { width: 16, height: 12 }));
    const form = createForm(createPayload(), [{ name: 'a.png', bytes }]);
    assert.equal((await sendForm(collector.url, form)).status, 200);
  }
  const countPooledConnections = (selectedPools: readonly pg.Pool[]) =>
    selectedPools.reduce((sum, { totalCount }) => sum + totalCount, 0);
  const countServerConnections = () => countConnections(database.db, CONNECTION_NAME);
  const countKnownDescriptors = () => countPooledConnections(allPools) + countSockets();
  return {
    urls,
    imageHost: host.url,
    /** Returns a function that waits until all resources acquired since this call are released. */
    async watch() {
      const checkLeaks = await createResourceLeakCheck({
        database,
        dataDir: folder,
        host,
        countKnownDescriptors,
      });
      return async () => {
        await checkLeaks();
        const isAnyConnectionUsed = () => pools.some((pool) => pool.totalCount > pool.idleCount);
        await until('the connections to be free', () => !isAnyConnectionUsed());
        await until('the server to have no other connection', async () => {
          // Each collector has an additional connection for notifications.
          return (
            (await countServerConnections()) === countPooledConnections(pools) + COLLECTOR_COUNT
          );
        });
      };
    },
    /** Closes the collectors, and waits until their connections are closed. */
    async close() {
      await resources.disposeAsync();
      await until('the connections to end', async () => (await countServerConnections()) === 0);
    },
  };
}

const POSTGRES_SCRIPT = join(import.meta.dirname, '../../../../scripts/postgres');

/** Returns the reason why the tests cannot start a second server, or undefined. */
function findServerProblem(testUrl: string): string | undefined {
  const urlCommand = spawnSync(POSTGRES_SCRIPT, ['url'], { encoding: 'utf8' });
  if (urlCommand.status !== 0) return `scripts/postgres has no server: ${urlCommand.stderr.trim()}`;
  const getHost = (url: string) => new URL(url).host.replace('localhost', '127.0.0.1');
  const [expected, actual] = [getHost(urlCommand.stdout.trim()), getHost(testUrl)];
  return expected === actual
    ? undefined
    : `TEST_DATABASE_URL points to ${actual} instead of ${expected}`;
}

/** Starts collectors on a separate server, since other tests share the main one. */
async function openRestartable() {
  const run = promisify(execFile);
  const env = {
    ...process.env,
    OSELYA_POSTGRES_SERVER: `restarts-${randomBytes(4).toString('hex')}`,
    OSELYA_POSTGRES_PORT: String(await findFreePort()),
  };
  deferCleanup(async () => {
    await run(POSTGRES_SCRIPT, ['destroy', '--yes'], { env });
  });
  const { stdout } = await run(POSTGRES_SCRIPT, ['start'], { env });
  const url = stdout.trim();
  const connection = await connect<Tables>({ url, maxConnections: 2 });
  deferCleanup(connection.close);
  return {
    db: connection.db,
    collectors: await startCollectors(url, { ...connection, url }),
    /** Restarts the server. `immediate` simulates a crash, after which the server recovers from its log. */
    restart: (mode: 'fast' | 'immediate') => run(POSTGRES_SCRIPT, ['restart', mode], { env }),
  };
}

const database = await openDatabase();
const { db, url } = database;
const random = createRandom(20_261_121);

async function openCuttable(databaseUrl: string) {
  const proxy = await startProxy(new URL(databaseUrl));
  const countSockets = () => 2 * proxy.connections();
  return { proxy, collectors: await startCollectors(proxy.url, database, countSockets) };
}

// All resources open before the first test, since they close after the last test.
const cuttable = url === undefined ? undefined : await openCuttable(url);
const serverProblem = url === undefined ? undefined : findServerProblem(url);
const restartable =
  url === undefined || serverProblem !== undefined ? undefined : await openRestartable();

/** Valid bodies by documented path. */
const BODIES: Readonly<Record<string, unknown>> = {
  '/api/v1/ingest': createPayload(),
  '/api/v1/search/fulltext': { query: 'квартира' },
  '/api/v1/search/similar': { query: 'квартира' },
  '/api/v1/search/hybrid': { query: 'квартира' },
  '/api/v1/search/matches': { ids: [1] },
  '/api/v1/search/browse': {},
  '/api/v1/search/facets': {},
  '/api/v1/search/points': {
    zoom: 1,
    bbox: [23, 49, 25, 50],
  },
  '/api/v1/listings/{id}/duplicates/{other_id}': { verdict: 'same' },
  '/api/v1/listings/{id}': { rooms: 2 },
  '/api/v1/admin/api-keys': { name: 'new', scopes: ['search'] },
  '/api/v1/admin/archive-check': {},
  '/api/v1/admin/raw/retry': { status: 'failed' },
};
/** Valid queries by documented path. */
const QUERIES: Readonly<Record<string, string>> = {
  '/api/v1/admin/raw': '?status=failed',
  '/api/v1/admin/raw-data': '?older_than_days=1',
  '/api/v1/search/suggest': '?q=льв',
};

async function sendRequest(collector: { url: string }, method: string, path: string) {
  const requestPath = path
    .replace('{sha256}', 'ab'.repeat(32))
    .replace('{other_id}', '2')
    .replace(/\{\w+\}/, '1');
  const body = method === 'get' || method === 'delete' ? undefined : BODIES[path];
  const response = await fetch(collector.url + requestPath + (QUERIES[path] ?? ''), {
    method: method.toUpperCase(),
    ...(path.endsWith('/with-images') && { body: createForm(createPayload(), []) }),
    ...(body !== undefined && {
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }),
  });
  const text = await response.text();
  const { code = '' } = (text.startsWith('{') ? JSON.parse(text) : {}) as { code?: string };
  return { status: response.status, retryAfter: response.headers.get('retry-after'), code, text };
}

test('Without the database every route responds with 503, and `POST /ingest` with 500 (ADR 0009)', async () => {
  const stoppedDatabase = await connect<Tables>({ url });
  await using disconnectedCollector = await startCollector(
    { ...stoppedDatabase, url },
    { COLLECTOR_WORKER: 'false' },
  );
  await stoppedDatabase.pool.end();
  const routes = (await readDocumentedRoutes(disconnectedCollector)).filter(({ path }) =>
    path.startsWith('/api/v1/'),
  );
  assert.ok(routes.length >= 17, `${routes.length} routes`);
  for (const { method, path, errorCodesByStatus } of routes) {
    const { status, retryAfter, code, text } = await sendRequest(
      disconnectedCollector,
      method,
      path,
    );
    const route = `${method} ${path}: ${text}`;
    const isIngest = path.startsWith('/api/v1/ingest');
    const expected = isIngest ? [500, 'ingest_failed'] : [503, 'unavailable'];
    assert.deepEqual([status, code], expected, route);
    assert.ok(errorCodesByStatus[status]?.includes(code), route);
    assert.ok(isIngest || Number(retryAfter) > 0, route);
  }
  assert.equal((await disconnectedCollector.get('/health/ready')).status, 503);
  assert.equal((await disconnectedCollector.get('/health/live')).status, 200);
  const health = (await disconnectedCollector.get('/health')).json<{
    status: string;
    checks: Record<string, { status: string }>;
  }>();
  assert.deepEqual([health.status, health.checks['database']?.status], ['down', 'down']);
});

if (cuttable !== undefined) {
  const { proxy, collectors } = cuttable;

  test('Randomly broken connections lose and double no payload', async (context) => {
    const load = await startLoad(collectors, db, 'cut');
    await load.untilMoreAccepted();
    for (let round = 0; round < getRepetitions({ soak: 12, ci: 2 }); round += 1) {
      await load.untilInProgress();
      await sleep(random() * 60);
      proxy.cut();
    }
    await load.untilMoreAccepted();
    await load.end();
    // The other worker may rescue a job if the statement that releases it was lost.
    await load.checkOutcome(context, { maxAttempts: 2 });
  });

  test('Silent connections are abandoned and lose and double no payload', async (context) => {
    for (let index = 0; index < getRepetitions({ soak: 2, ci: 1 }); index += 1) {
      const load = await startLoad(collectors, db, `silent-${index}`);
      await load.untilMoreAccepted();
      await load.untilInProgress();
      await sleep(random() * 50);
      proxy.silence();
      await load.untilMoreAccepted();
      await load.end();
      proxy.forget();
      // A worker loses its lease after two consecutive silent connections.
      await load.checkOutcome(context, { maxAttempts: 2 });
    }
  });

  test('A slow database server delays jobs and leaves no open connection', async (context) => {
    proxy.settings.delayMs = 100;
    const load = await startLoad(collectors, db, 'slow');
    await load.untilMoreAccepted();
    proxy.settings.delayMs = 0;
    await load.end();
    await load.checkOutcome(context);
    await collectors.close();
  });

  for (const mode of ['immediate', 'fast'] as const) {
    const title = `A server that restarts (${mode}) under load loses and doubles no payload`;
    test(title, { skip: serverProblem ?? false }, async (context) => {
      assert.ok(restartable !== undefined);
      const load = await startLoad(restartable.collectors, restartable.db, mode);
      for (let restart = 0; restart < getRepetitions({ soak: 2, ci: 1 }); restart += 1) {
        await load.untilMoreAccepted();
        await load.untilInProgress();
        await restartable.restart(mode);
      }
      await load.untilMoreAccepted();
      assert.ok(load.result.unavailableCount > 0, 'the load met the outage');
      await load.end();
      await load.checkOutcome(context);
      if (mode === 'fast') await restartable.collectors.close();
    });
  }
}
