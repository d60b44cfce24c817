import assert from 'node:assert/strict';
import {
  createConstantHandler,
  createConstantVector,
  startModelServer,
} from '@oselya/model/testing';
import { sql } from 'kysely';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { openFolder, until } from '@oselya/testing';
import { startWorker } from '../src/main.ts';
import { startCollector } from './support/collector.ts';
import {
  DIMENSIONS,
  MINIMAL_ENV,
  openDatabase,
  readRawRecord,
  updateRawRecord,
  waitUntilCompleted,
  store,
  createPayload,
  log,
} from './support/pipeline.ts';

const database = await openDatabase();
const { db } = database;

test('A job of a killed process waits for its lease only when other processes share the database', async () => {
  const earlierId = await store(db, createPayload({ external_id: 'abandoned' }));
  const lease_expires_at = new Date(Date.now() + 3_600_000);
  const claim = { status: 'processing', attempt: 1, attempts: 1, lease_expires_at } as const;
  await updateRawRecord(db, earlierId, claim);
  const laterId = await store(db, createPayload({ external_id: 'after' }));
  await using _ = await startCollector(database);
  await waitUntilCompleted(db, laterId);

  if (database.isExclusive) {
    assert.equal((await waitUntilCompleted(db, earlierId)).attempts, 2);
  } else {
    assert.equal((await readRawRecord(db, earlierId)).status, 'processing');
  }
});

test('Startup and shutdown do not wait for the model server', async () => {
  const requestReceived = Promise.withResolvers<void>();
  const ignoreRequest = () => {
    requestReceived.resolve();
    return 'silence' as const;
  };
  await using server = await startModelServer(ignoreRequest, { handlesProbes: true });
  const collector = await startCollector(database, {
    MODEL_MODE: 'openai',
    MODEL_BASE_URL: server.url,
    MODEL_CHAT: 'm',
    MODEL_EMBEDDING: 'e',
  });
  await requestReceived.promise;
  assert.equal((await collector.get('/health/live')).status, 200);
  await collector.close();
});

test('Startup returns the jobs of lost workers and fails jobs after three attempts', async () => {
  const [retriedId, failedId] = [
    await store(db, createPayload()),
    await store(db, createPayload()),
  ];
  const claimColumns = { status: 'processing', attempt: 3, lease_expires_at: new Date(0) } as const;
  await updateRawRecord(db, retriedId, { ...claimColumns, attempts: 2 });
  await updateRawRecord(db, failedId, { ...claimColumns, attempts: 3 });
  await sql`create table claims (seconds integer)`.execute(db);
  await sql`create function note_claim() returns trigger language plpgsql as $$
    begin
      insert into claims values (extract(epoch from new.lease_expires_at - new.updated_at));
      return null;
    end $$`.execute(db);
  await sql`create trigger note_claim after update on raw_data
    for each row when (new.attempt > old.attempt) execute function note_claim()`.execute(db);
  await using _ = await startCollector(database, { COLLECTOR_LEASE_SECONDS: '6' });
  await waitUntilCompleted(db, retriedId);
  const failedRecord = await readRawRecord(db, failedId);
  assert.deepEqual([failedRecord.status, failedRecord.error?.code], ['failed', 'lease_lost']);
  const { rows } = await sql`select distinct seconds from claims`.execute(db);
  assert.deepEqual(rows, [{ seconds: 6 }]);
  await sql`drop trigger note_claim on raw_data`.execute(db);
});

test('Startup on a port in use claims no job', async () => {
  const waitingId = await store(db, createPayload({ external_id: 'port in use' }));
  await using otherCollector = await startCollector(database, { COLLECTOR_WORKER: 'false' });
  const claims = 'select count(*)::int as n from raw_data where attempt > 0 and id = $1';
  const { port } = new URL(otherCollector.url);
  await assert.rejects(startCollector(database, { COLLECTOR_PORT: port }), /in use/);
  const { rows } = await database.pool.query<{ n: number }>(claims, [waitingId]);
  assert.deepEqual(rows, [{ n: 0 }]);
});

/** Opens a separate database. Returns it with a function that waits until a worker stops listening. */
async function openWatchedDatabase() {
  const openedDatabase = await openDatabase();
  let isUnlistened = false;
  const isolatedDatabase: typeof database = {
    ...openedDatabase,
    async listen(channel, notify) {
      const unlisten = await openedDatabase.listen(channel, notify);
      return async () => {
        isUnlistened = true;
        await unlisten();
      };
    },
  };
  const waitForUnlisten = () => until('the worker to stop listening', () => isUnlistened);
  return { isolatedDatabase, waitForUnlisten };
}

test('A worker stops while a slow request is in progress', async () => {
  const { isolatedDatabase, waitForUnlisten } = await openWatchedDatabase();
  const collector = await startCollector(isolatedDatabase);
  // The server waits for the body of this request.
  const { hostname, port } = new URL(collector.url);
  const socket = connect(Number(port), hostname);
  socket.write(
    'POST /api/v1/raw HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n' +
      'Content-Length: 9\r\nExpect: 100-continue\r\n\r\n',
  );
  const [responseBytes] = (await once(socket, 'data')) as [Buffer];
  assert.match(responseBytes.toString(), /100 Continue/);

  const closePromise = collector.close();
  await waitForUnlisten();
  assert.equal(socket.closed, false);
  socket.destroy();
  await closePromise;
});

test('The stop of a worker closes the model client after the jobs end', async () => {
  const requestReceived = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const respond = createConstantHandler({ createVector: createConstantVector(DIMENSIONS) });
  await using server = await startModelServer(async (request) => {
    requestReceived.resolve();
    await release.promise;
    return respond(request);
  });
  const { isolatedDatabase, waitForUnlisten } = await openWatchedDatabase();
  const id = await store(isolatedDatabase.db, createPayload());
  const env = {
    ...MINIMAL_ENV,
    DATA_DIR: await openFolder(),
    MODEL_MODE: 'openai',
    MODEL_BASE_URL: server.url,
    MODEL_CHAT: 'chat',
    MODEL_EMBEDDING: 'embedding',
  };
  const worker = await startWorker(env, { database: isolatedDatabase, log });
  await requestReceived.promise;
  const closePromise = worker.close();
  await waitForUnlisten().finally(release.resolve);
  await closePromise;
  assert.equal((await readRawRecord(isolatedDatabase.db, id)).status, 'completed');
  // The connections of an unclosed client would stay open for several seconds.
  const isClosed = async () => (await server.connections()) === 0;
  await until('the model client to be closed', isClosed, 1000);
});

test('A standalone worker serves its health and load', async () => {
  await db.deleteFrom('raw_data').execute();
  await using resources = new AsyncDisposableStack();
  const env = {
    DATA_DIR: await openFolder(),
    ...MINIMAL_ENV,
    COLLECTOR_WORKERS: '3',
    COLLECTOR_WORKER_PORT: '0',
  };
  const worker = await startWorker(env, { database, log });
  resources.defer(worker.close);
  const { url } = worker;
  assert.ok(url);
  for (const path of ['/health', '/health/live', '/health/ready']) {
    assert.equal((await fetch(url + path)).status, 200, path);
  }
  const health = (await (await fetch(`${url}/health`)).json()) as { checks: object };
  assert.deepEqual(Object.keys(health.checks).toSorted(), ['database', 'disk', 'model']);
  const readMetric = async (name: string) => {
    const text = await (await fetch(`${url}/metrics`)).text();
    return Number(new RegExp(`^${name} (.+)$`, 'm').exec(text)?.[1]);
  };
  assert.equal(await readMetric('collector_worker_slots'), 3);
  assert.equal(await readMetric('collector_worker_last_claim_timestamp_seconds'), 0);

  const startSeconds = Date.now() / 1000;
  const id = await store(db, createPayload());
  await waitUntilCompleted(db, id);
  assert.ok(
    (await readMetric('collector_worker_last_claim_timestamp_seconds')) >= startSeconds - 1,
  );
  assert.equal(await readMetric('collector_worker_jobs'), 0);
  assert.equal(await readMetric('collector_queue_jobs\\{status="failed"\\}'), 0);
  assert.ok((await readMetric('collector_disk_free_bytes')) > 0);

  assert.equal((await fetch(`${url}/api/v1/admin/queue`)).status, 404);
  await worker.close();
  await assert.rejects(fetch(`${url}/health`));
});
