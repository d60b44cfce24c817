import { mkdir } from 'node:fs/promises';
import { createLogger } from '@oselya/kit';
import { readConfig } from '../config.ts';
import {
  type BackfillOptions,
  type BackfillReport,
  backfillEmbeddings,
} from '../embeddings/backfill.ts';
import {
  createReprocessService,
  createImageReprocessService,
  type Reprocess,
  type ReprocessImages,
} from '../reprocess/reprocess.ts';
import { openInlineJobs, openServices, type SharedResources } from '../services.ts';

export type Maintenance = AsyncDisposable & {
  backfillEmbeddings(options: BackfillOptions): Promise<BackfillReport>;
  reprocess: Reprocess;
  reprocessImages: ReprocessImages;
  parallel: number;
};

const SHUTDOWN_MS = 60_000;

/**
 * Opens the configured database and model for a maintenance command, without a server or a worker.
 * @throws ConfigError, StartError, DatabaseError.
 */
export async function openMaintenance(
  env: NodeJS.ProcessEnv,
  shared: SharedResources = {},
): Promise<Maintenance> {
  const config = readConfig(env, { servesApi: false });
  await mkdir(config.DATA_DIR, { recursive: true });
  const log = shared.log ?? createLogger({ level: 'silent', service: 'collector' });
  await using resources = new AsyncDisposableStack();
  const services = await openServices(config, { ...shared, log });
  resources.defer(services.close);
  const { model, images, process } = services;
  const { db } = services.database;
  const leaseMs = config.COLLECTOR_LEASE_SECONDS * 1000;
  const parallel = config.COLLECTOR_WORKERS;
  const jobs = openInlineJobs(config, services);
  resources.defer(() => jobs.close({ timeoutMs: SHUTDOWN_MS }));
  const ownedResources = resources.move();
  return {
    backfillEmbeddings: (options) => backfillEmbeddings({ db, model }, options),
    reprocess: createReprocessService({ db, model, jobs, process, leaseMs, parallel }),
    reprocessImages: createImageReprocessService({ db, images, jobs, process, leaseMs, parallel }),
    parallel,
    [Symbol.asyncDispose]: () => ownedResources.disposeAsync(),
  };
}
