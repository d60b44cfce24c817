import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, migrate } from '@oselya/db';
import { createModelClient, type ModelClient } from '@oselya/model';
import { openFolder, until, getRepetitions } from '@oselya/testing';
import { fillDataFolder } from '@oselya/testing/database';
import { type Kysely, sql } from 'kysely';
import { Registry } from 'prom-client';
import { getMigrateOptions } from '../../src/database.ts';
import { createMetrics } from '../../src/metrics.ts';
import { createPipeline } from '../../src/pipeline/pipeline.ts';
import { rescueJobs } from '../../src/queue/job-writes.ts';
import { startWorker } from '../../src/queue/worker.ts';
import type { Tables } from '../../src/tables.ts';
import { openWorkerImages, serveImages } from '../support/images.ts';
import {
  countConnections,
  createHarness,
  DIMENSIONS,
  log,
  setApplicationName,
  openDatabase,
  openModel,
  createPayload,
  readRawRecord,
  store,
  listTemporaryFiles,
  waitUntilResourcesAreFree,
  createResourceLeakCheck,
} from '../support/pipeline.ts';
import {
  KILL_COUNT,
  killWorkers,
  createListingPayload,
  random,
  startAnsweringServer,
  startWorkerProcess,
  STATEMENT_KILL_POINTS,
} from './kill-workers.ts';
import { countUnfinished, checkCounts } from './load.ts';
import { startProxy, type FaultPoint } from './proxy.ts';

const KILLED_CONNECTION_NAME = 'worker-to-be-killed';
const CUT_CONNECTION_NAME = 'worker-to-be-cut';

const EMBEDDED_KILL_COUNT = getRepetitions({ soak: 10, ci: 1 });
const EMBEDDED_PAYLOAD_COUNT = getRepetitions({ soak: 60, ci: 10 });
const TIMEOUT_MS = getRepetitions({ soak: 60, ci: 8 }) * 60_000;

const database = process.env['TEST_DATABASE_URL'] === undefined ? undefined : await openDatabase();

test(
  'Repeated kills of the embedded database process lose and double no payload',
  { timeout: TIMEOUT_MS },
  killEmbedded,
);

if (database?.url !== undefined) {
  const { db, url } = database;

  const title = 'Workers killed at every statement and model call lose and double no payload';
  test(title, { timeout: TIMEOUT_MS }, async (t) => {
    const dataDir = await openFolder();
    const folder = join(dataDir, 'images');
    await using server = await startAnsweringServer();
    const host = await serveImages();
    const { killCount, acceptedIds } = await killWorkers(db, {
      url: setApplicationName(url, KILLED_CONNECTION_NAME),
      folder,
      modelUrl: server.url,
      imageHost: host.url,
    });
    assert.equal(killCount, KILL_COUNT);
    const { counts } = await checkCounts(db, acceptedIds, 'killed');
    const images = await db.selectFrom('images').select('described_by').execute();
    assert.ok(images.length > 0 && images.every((image) => image.described_by !== null));
    const connections = () => countConnections(db, KILLED_CONNECTION_NAME);
    await waitUntilResourcesAreFree({ servers: [host, server, { connections }], folder: dataDir });
    const { rows: reclaimedPayloads } = await sql`select from raw_data
      where source_slug = 'killed' and attempt > 1`.execute(db);
    assert.ok(reclaimedPayloads.length > 0);
    t.diagnostic(
      `${killCount} kills, ${counts}, ${reclaimedPayloads.length} of them claimed again`,
    );
  });

  test('A job survives a connection that breaks at any statement', async (t) => {
    const dataDir = await openFolder();
    const host = await serveImages();
    const target = {
      db,
      url: setApplicationName(url, CUT_CONNECTION_NAME),
      dataDir,
      imageHost: host.url,
    };
    // The first job opens resources that remain open, so it precedes the leak checks.
    await processWithCut(target);
    for (const faultPoint of STATEMENT_KILL_POINTS) {
      const checkLeaks = await createResourceLeakCheck({ database, dataDir, host });
      const {
        raw: rawRecord,
        cutCount,
        extractionCount,
      } = await processWithCut(target, faultPoint);
      const point = `${faultPoint.when} ${faultPoint.name}`;
      assert.equal(cutCount, 1, point);
      assert.deepEqual(
        [rawRecord.status, rawRecord.error, rawRecord.attempts],
        ['completed', null, 1],
        point,
      );
      assert.ok(extractionCount <= 2, `${point}: the payload is read at most twice`);
      await checkLeaks();
      const connections = () => countConnections(db, CUT_CONNECTION_NAME);
      await until('the connections to end', async () => (await connections()) === 0);
    }
    t.diagnostic(`${STATEMENT_KILL_POINTS.length} cuts, 0 lost, 0 doubled`);
  });
}

/** Processes one payload with a worker whose connections are cut at a given point, then stops the worker. */
async function processWithCut(
  target: { db: Kysely<Tables>; url: string; dataDir: string; imageHost: string },
  faultPoint: FaultPoint = { statement: 'none', when: 'before' },
) {
  const { db, url, dataDir, imageHost } = target;
  const payload = createPayload();
  const image_urls = [`${imageHost}/${payload.external_id}.png`];
  const rawId = await store(db, { ...payload, image_urls });
  let [cutCount, extractionCount] = [0, 0];
  await using resources = new AsyncDisposableStack();
  const onReached = ({ cut }: { cut: () => void }) => {
    cutCount += 1;
    cut();
  };
  const proxy = resources.use(await startProxy(new URL(url), { ...faultPoint, onReached }));
  const cuttableDatabase = await connect<Tables>({ url: proxy.url, maxConnections: 4 });
  resources.defer(cuttableDatabase.close);
  const mock = createModelClient({
    mode: 'mock',
    timeoutMs: 10_000,
    embeddingDimensions: DIMENSIONS,
  });
  const generateObject: ModelClient['generateObject'] = (request) => {
    if (request.image === undefined) extractionCount += 1;
    return mock.generateObject(request);
  };
  const model = { ...mock, generateObject };
  const folder = join(dataDir, 'images');
  const { images, close } = await openWorkerImages({ db: cuttableDatabase.db, model, folder });
  resources.defer(close);
  const deps = { db: cuttableDatabase.db, metrics: createMetrics(new Registry()), log };
  const worker = startWorker({
    ...deps,
    processJob: createPipeline({ ...deps, model, images, modelTimeoutMs: 10_000 }),
    breaker: model.breaker,
    slots: 1,
    // No lease expires during the test.
    leaseMs: 600_000,
    maxAttempts: 1,
    pollMs: 20,
  });
  const stop = () => worker.stop({ timeoutMs: 20_000 });
  resources.defer(stop);
  const rawRecord = await until('the job to end', async () => {
    const record = await readRawRecord(db, rawId);
    return record.status !== 'pending' && record.status !== 'processing' && record;
  });
  await stop();
  assert.equal(
    cuttableDatabase.pool.totalCount,
    cuttableDatabase.pool.idleCount,
    'no connection is in use',
  );
  assert.deepEqual(await listTemporaryFiles(dataDir), []);
  return { raw: rawRecord, cutCount, extractionCount };
}

/** Repeatedly kills a worker that uses the embedded database. Only one process at a time can open its folder. */
async function killEmbedded(t: { diagnostic: (message: string) => void }): Promise<void> {
  await using server = await startAnsweringServer();
  const host = await serveImages();
  const root = await openFolder();
  const [dataDir, folder] = [join(root, 'var'), join(root, 'images')];
  await fillDataFolder(dataDir);
  const useDatabase = async (work: (db: Kysely<Tables>) => Promise<void>) => {
    const embeddedDatabase = await connect<Tables>({ dataDir });
    try {
      await migrate(embeddedDatabase, getMigrateOptions({ EMBEDDING_DIMENSIONS: DIMENSIONS }));
      await work(embeddedDatabase.db);
    } finally {
      await embeddedDatabase.close();
    }
  };
  const acceptedIds: number[] = [];
  await useDatabase(async (db) => {
    for (let index = 0; index < EMBEDDED_PAYLOAD_COUNT; index += 1) {
      acceptedIds.push(await store(db, createListingPayload(index, host.url)));
    }
  });
  for (let kill = 0; kill < EMBEDDED_KILL_COUNT; kill += 1) {
    const worker = startWorkerProcess({ dataDir, folder, modelUrl: server.url });
    const target = server.state.requestCount + 1 + Math.floor(random() * 8);
    await until('requests to the model', () => server.state.requestCount >= target);
    await sleep(random() * 15);
    worker.child.kill('SIGKILL');
    await worker.ended;
  }
  await useDatabase(async (db) => {
    const unfinishedCount = await countUnfinished(db);
    await rescueJobs({ db, log }, { maxAttempts: 1000, isExclusive: true });
    const model = openModel(server.url);
    const { images, close } = await openWorkerImages({ db, model, folder });
    const harness = createHarness(db, { model, images });
    while ((await countUnfinished(db)) > 0) await harness.runNext();
    await close();
    await model.close();
    const { counts } = await checkCounts(db, acceptedIds, 'killed');
    await waitUntilResourcesAreFree({ servers: [host], folder: root });
    t.diagnostic(
      `${EMBEDDED_KILL_COUNT} kills, ${counts}, ${unfinishedCount} payloads unfinished after the last kill`,
    );
  });
}
