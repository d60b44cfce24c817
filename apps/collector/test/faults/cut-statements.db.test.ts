import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from '@oselya/db';
import { atEnd, until } from '@oselya/testing';
import { createModelClient, type ModelClient } from '@oselya/model';
import type { Kysely } from 'kysely';
import { Registry } from 'prom-client';
import type { Tables } from '../../src/tables.ts';
import { createMetrics } from '../../src/metrics.ts';
import { createPipeline } from '../../src/pipeline/pipeline.ts';
import { startWorker } from '../../src/queue/worker.ts';
import {
  countConnections,
  named,
  DIMENSIONS,
  openDatabase,
  rawRecord,
  store,
  temporaryFiles,
  watchResources,
  payloadOf,
  log,
} from '../support/pipeline.ts';
import { openWorkerImages, serveImages } from '../support/images.ts';
import { STATEMENTS } from './watching-proxy.ts';
import { type Moment, startWatchingProxy } from './watching-proxy.ts';

/** The connection name of the worker. */
const NAME = 'worker-that-is-cut';

// The embedded database is in the process: there is no connection to cut.
if (process.env['TEST_DATABASE_URL'] !== undefined) await defineTests();

async function defineTests(): Promise<void> {
  const database = await openDatabase();
  const { db, url = '' } = database;
  const dataDir = await mkdtemp(join(tmpdir(), 'oselya-cut-'));
  atEnd(() => rm(dataDir, { recursive: true }));
  const host = await serveImages();
  const scene = { db, url: named(url, NAME), dataDir, imageHost: host.url };
  const watch = () => watchResources({ database, dataDir, host });
  // The first job opens resources that stay.
  assert.equal((await processWithCut(scene)).raw.status, 'completed');
  for (const [name, statement] of Object.entries(STATEMENTS)) {
    for (const when of ['before', 'after'] as const) {
      test(`A job survives a connection that breaks ${when} "${name}" runs`, async () => {
        const untilResourcesAreFree = await watch();
        const { raw, cuts, readings } = await processWithCut(scene, { statement, when, nth: 1 });
        assert.equal(cuts, 1);
        assert.deepEqual([raw.status, raw.error, raw.attempts], ['completed', null, 1]);
        assert.ok(readings <= 2, 'it is done again once at most');
        await untilResourcesAreFree();
        await until('the connections to end', async () => (await countConnections(db, NAME)) === 0);
      });
    }
  }
}

/** Creates the mock model with a count of its readings. */
function countedModel(): { model: ModelClient; readings: () => number } {
  const model = createModelClient({
    mode: 'mock',
    timeoutMs: 10_000,
    embeddingDimensions: DIMENSIONS,
  });
  let readings = 0;
  const generateObject: ModelClient['generateObject'] = (request) => {
    if (request.image === undefined) readings += 1;
    return model.generateObject(request);
  };
  return { model: { ...model, generateObject }, readings: () => readings };
}

/**
 * Processes one payload with a worker whose connections break at a statement, if any, and stops it: resources
 * that are left then are leaks.
 */
async function processWithCut(
  {
    db,
    url,
    dataDir,
    imageHost,
  }: { db: Kysely<Tables>; url: string; dataDir: string; imageHost: string },
  moment: Moment = { statement: 'none', when: 'before', nth: 1 },
) {
  const payload = payloadOf();
  // A new image.
  const image_urls = [`${imageHost}/${payload.external_id}.png`];
  const rawId = await store(db, { ...payload, image_urls });
  let cuts = 0;
  await using opened = new AsyncDisposableStack();
  const proxy = await startWatchingProxy(new URL(url), moment, ({ cut }) => {
    cuts += 1;
    cut();
  });
  opened.defer(() => proxy.close());
  const cuttable = await connect<Tables>({ url: proxy.url, maxConnections: 4 });
  opened.defer(cuttable.close);
  const { model, readings } = countedModel();
  const { images, close } = await openWorkerImages({
    db: cuttable.db,
    model,
    folder: join(dataDir, 'images'),
  });
  opened.defer(close);
  const deps = { db: cuttable.db, metrics: createMetrics(new Registry()), log };
  const worker = startWorker({
    ...deps,
    process: createPipeline({ ...deps, model, images, modelTimeoutMs: 10_000 }),
    breaker: model.breaker,
    slots: 1,
    // No lease expired meanwhile.
    leaseMs: 600_000,
    maxAttempts: 1,
    pollMs: 20,
  });
  const stop = () => worker.stop({ timeoutMs: 20_000 });
  opened.defer(stop);
  const raw = await until('the job to end', async () => {
    const found = await rawRecord(db, rawId);
    return found.status !== 'pending' && found.status !== 'processing' && found;
  });
  await stop();
  assert.equal(cuttable.pool.totalCount, cuttable.pool.idleCount, 'no connection is in use');
  assert.deepEqual(await temporaryFiles(dataDir), []);
  return { raw, cuts, readings: readings() };
}
