// A worker in a process of its own, to be killed: node worker-process.ts SETTINGS, where these are JSON. It
// tells its parent when it works, and ends with it.

import { flushCompileCache } from 'node:module';
import { connect } from '@oselya/db';
import { Registry } from 'prom-client';
import type { Tables } from '../../src/tables.ts';
import { createMetrics } from '../../src/metrics.ts';
import { createPipeline } from '../../src/pipeline/pipeline.ts';
import { expireLeases } from '../../src/queue/jobs.ts';
import { startWorker } from '../../src/queue/worker.ts';
import { log, openModel } from '../support/pipeline.ts';
import { openWorkerImages } from '../support/images.ts';

export type WorkerSettings = {
  /** Where the database is: one of the two. */
  url?: string | undefined;
  dataDir?: string | undefined;
  /** The model server; the mock without one. */
  modelUrl?: string | undefined;
  /** Where pictures are kept; none without one. */
  folder?: string | undefined;
};

const LEASE_MS = 500;

const { url, dataDir, modelUrl, folder } = JSON.parse(process.argv[2] ?? '') as WorkerSettings;
const { db, isExclusive } = await connect<Tables>({ url, dataDir, maxConnections: 6 });
if (isExclusive) await expireLeases(db);
const model = openModel(modelUrl);
const { images } = await openWorkerImages({ db, model, folder });
const metrics = createMetrics(new Registry());
const deps = { db, metrics, log };
startWorker({
  ...deps,
  process: createPipeline({ ...deps, model, images, modelTimeoutMs: 10_000 }),
  breaker: model.breaker,
  slots: 2,
  leaseMs: LEASE_MS,
  maxAttempts: 1000,
  pollMs: 50,
});
process.once('disconnect', () => process.exit());
// Whoever is killed writes nothing at its end.
flushCompileCache();
process.send?.('works');
