import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from '@oselya/db';
import { atEnd } from '@oselya/db/testing';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../src/database/tables.ts';
import { startCollector } from '../support/collector.ts';
import { openDatabase } from '../support/database.ts';
import { untilNothingIsLeft } from '../support/nothing-left.ts';
import { payloadOf } from '../support/payload.ts';
import { until } from '../support/until.ts';
import { countRaws, untilEnded } from './count-raws.ts';
import { startFlakyProxy } from './flaky-proxy.ts';
import { startIngest } from './ingest-load.ts';
import { reasonAgainstServer, startServer } from './own-server.ts';
import { randomOf } from './random.ts';

const database = await openDatabase();
const { url } = database;
const random = randomOf(20_261_121);

/** Senders, each of which waits for its answer. */
const SENDERS = 24;
/** Payloads that are accepted before, between and after what happens. */
const SOME = 150;
/** A lost job waits for its lease, of 5 s here, and then for the next look for such jobs. */
const PATIENCE_MS = 60_000;

/** By this the server tells the connections of the collectors from those of the test. */
const NAME = 'collector-in-trouble';

/**
 * Two collectors, each with a worker, that reach their database at an address of their own. What the platform
 * waits for 30 and 60 s, a query and a transaction without a client, is 1.5 and 2 s here.
 */
async function startCollectors(databaseUrl: string) {
  const address = new URL(databaseUrl);
  address.searchParams.set('application_name', NAME);
  address.searchParams.set('query_timeout', '1500');
  address.searchParams.set('idle_in_transaction_session_timeout', '2000');
  const folder = await mkdtemp(join(tmpdir(), 'oselya-outage-'));
  atEnd(() => rm(folder, { recursive: true, force: true }));
  const env = {
    DATABASE_URL: address.href,
    DATA_DIR: folder,
    COLLECTOR_INGEST_PER_MINUTE: '0',
    COLLECTOR_LEASE_SECONDS: '5',
    COLLECTOR_MAX_ATTEMPTS: '100',
  };
  const [first, second] = [
    await startCollector(undefined, env),
    await startCollector(undefined, env),
  ];
  return {
    folder,
    urls: [first.url, second.url],
    async close() {
      await Promise.all([first.close(), second.close()]);
    },
  };
}

type Collectors = Awaited<ReturnType<typeof startCollectors>>;
type Load = ReturnType<typeof startIngest>;

async function connectionsOf(db: Kysely<Tables>): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    select count(*) as n from pg_stat_activity
    where datname = current_database() and application_name = ${NAME}`.execute(db);
  return rows[0]?.n ?? 0;
}

/** Waits until so many more payloads are accepted. */
async function untilAccepted({ result }: Load, more: number): Promise<void> {
  const wanted = result.accepted.size + more;
  await until('payloads to be accepted', () => result.accepted.size >= wanted, PATIENCE_MS);
}

/**
 * Ends the load and judges: each payload that was accepted is stored once, under the id that was
 * answered, and completed, without anybody's putting it back; the listings are what the newest payloads make.
 */
async function judge(
  context: TestContext,
  {
    db,
    source,
    load,
    collectors,
  }: { db: Kysely<Tables>; source: string; load: Load; collectors: Collectors },
): Promise<void> {
  const { accepted, unanswered, unavailable, wrong } = await load.stop();
  await untilEnded(db, PATIENCE_MS);
  const ids = [...accepted.values()];
  const { attempts } = await db
    .selectFrom('raw_data')
    .select((eb) => eb.fn.max('attempt').as('attempts'))
    .where('source_slug', '=', source)
    .executeTakeFirstOrThrow();
  context.diagnostic(
    `${accepted.size} accepted, ${unavailable} × 500, ${unanswered} without an answer; ` +
      `${attempts} claims at most`,
  );
  assert.deepEqual(wrong, []);
  const stored = await db
    .selectFrom('raw_data')
    .select(['idempotency_key', 'id'])
    .where('source_slug', '=', source)
    .execute();
  assert.equal(stored.length, accepted.size, 'one record for each key');
  assert.deepEqual(new Map(stored.map(({ idempotency_key: key, id }) => [key, id])), accepted);
  const counts = await countRaws(db, { source, ids });
  assert.deepEqual(counts, {
    stored: accepted.size,
    known: accepted.size,
    unfinished: 0,
    completed: accepted.size,
    invalid: 0,
    failed: 0,
    held: 0,
    listings: counts.named,
    current: counts.named,
    named: counts.named,
  });
  await untilNothingIsLeft({ database, folder: collectors.folder });
}

/** What can be cut or slow is a connection to a server; the embedded database is in the process. */
async function openCuttable(databaseUrl: string) {
  const proxy = await startFlakyProxy(new URL(databaseUrl));
  atEnd(() => proxy.close());
  const collectors = await startCollectors(proxy.url);
  return { proxy, collectors, resting: await connectionsOf(database.db) };
}

/** Only a server of the test's own may be restarted: other tests use the one that they all run on. */
async function openRestartable() {
  const server = await startServer();
  const collectors = await startCollectors(server.url);
  const own = await connect<Tables>({ url: server.url, maxConnections: 2 });
  atEnd(() => own.close());
  return { server, collectors, db: own.db };
}

// All is opened before the first test begins: when the last one that is known ends, everything is closed.
const cuttable = url === undefined ? undefined : await openCuttable(url);
const unable = url === undefined ? undefined : reasonAgainstServer(url);
const restartable = url === undefined || unable !== undefined ? undefined : await openRestartable();

test('without its database the collector answers 503, and the ingest 500 (ADR 0009)', async () => {
  const gone = await connect<Tables>({ url });
  const bereft = await startCollector({ ...gone, url }, { COLLECTOR_WORKER: 'false' });
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
  const { proxy, collectors, resting } = cuttable;
  const { db } = database;

  test('connections that break at random moments lose and double nothing', async (context) => {
    const load = startIngest('cut', collectors.urls, SENDERS);
    await untilAccepted(load, SOME);
    for (let cut = 0; cut < 15; cut += 1) {
      await sleep(20 + random() * 200);
      proxy.cut();
    }
    await untilAccepted(load, SOME);
    await judge(context, { db, source: 'cut', load, collectors });
  });

  test('connections that go silent are given up, and lose and double nothing', async (context) => {
    const load = startIngest('silent', collectors.urls, SENDERS);
    for (let silence = 0; silence < 3; silence += 1) {
      await untilAccepted(load, SOME);
      await sleep(random() * 50);
      proxy.silence();
    }
    await untilAccepted(load, SOME);
    await judge(context, { db, source: 'silent', load, collectors });
    proxy.forget();
  });

  test('a slow server makes all slower, and leaves no connection behind', async (context) => {
    proxy.way.delayMs = 100;
    const load = startIngest('slow', collectors.urls, SENDERS);
    await untilAccepted(load, SOME);
    proxy.way.delayMs = 0;
    await judge(context, { db, source: 'slow', load, collectors });
    // Connections that nobody needs end after 10 s, those of the tests before too.
    const atRest = async () => (await connectionsOf(db)) <= resting;
    await until('the connections to be closed', atRest, 30_000);
  });

  test('a collector that ends leaves no connection', async () => {
    await collectors.close();
    await until('its connections to be closed', async () => (await connectionsOf(db)) === 0);
  });
}

if (url !== undefined) {
  for (const mode of ['immediate', 'fast'] as const) {
    const name = `a server that restarts (${mode}) under load loses and doubles nothing`;
    test(name, { skip: unable ?? false }, async (context) => {
      assert.ok(restartable !== undefined);
      const { server, collectors, db } = restartable;
      const load = startIngest(mode, collectors.urls, SENDERS);
      for (let restart = 0; restart < 2; restart += 1) {
        await untilAccepted(load, SOME);
        await server.restart(mode);
      }
      await untilAccepted(load, SOME);
      assert.ok(load.result.unavailable > 0, 'the outage was met');
      await judge(context, { db, source: mode, load, collectors });
    });
  }

  test(
    'collectors that met restarts and end leave no connection',
    { skip: unable ?? false },
    async () => {
      assert.ok(restartable !== undefined);
      const { collectors, db } = restartable;
      await collectors.close();
      await until('their connections to be closed', async () => (await connectionsOf(db)) === 0);
    },
  );
}
