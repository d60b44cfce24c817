// Runs a worker in a process that a test can kill. The argument contains the settings as JSON. The process
// sends a message to its parent after startup, and exits with the parent.

import { flushCompileCache } from 'node:module';
import { connect } from '@oselya/db';
import { Registry } from 'prom-client';
import type { Tables } from '../../src/tables.ts';
import { createMetrics } from '../../src/metrics.ts';
import { createPipeline } from '../../src/pipeline/pipeline.ts';
import { rescueJobs } from '../../src/queue/job-writes.ts';
import { startWorker } from '../../src/queue/worker.ts';
import { log, openModel } from '../support/pipeline.ts';
import { openWorkerImages } from '../support/images.ts';

export type WorkerSettings = {
  /** URL of the database. Without it, the embedded database of `dataDir` is used. */
  url?: string | undefined;
  dataDir?: string | undefined;
  /** URL of the model server. Without it, the mock model is used. */
  modelUrl?: string | undefined;
  /** Folder of images. Without it, images are skipped. */
  folder?: string | undefined;
};

const LEASE_MS = 500;
const MAX_ATTEMPTS = 1000;

const { url, dataDir, modelUrl, folder } = JSON.parse(process.argv[2] ?? '') as WorkerSettings;
const { db, isExclusive } = await connect<Tables>({ url, dataDir, maxConnections: 6 });
if (isExclusive) await rescueJobs({ db, log }, { maxAttempts: MAX_ATTEMPTS, isExclusive });
const model = openModel(modelUrl);
const { images } = await openWorkerImages({ db, model, folder });
const metrics = createMetrics(new Registry());
const deps = { db, metrics, log };
startWorker({
  ...deps,
  processJob: createPipeline({ ...deps, model, images, modelTimeoutMs: 10_000 }),
  breaker: model.breaker,
  slots: 2,
  leaseMs: LEASE_MS,
  maxAttempts: MAX_ATTEMPTS,
  pollMs: 50,
});
process.once('disconnect', () => process.exit());
// A killed process would not write its compile cache at exit.
flushCompileCache();
process.send?.('works');
