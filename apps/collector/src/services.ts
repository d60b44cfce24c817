import { join } from 'node:path';
import { type Database, migrate } from '@oselya/db';
import { createLogger, type Logger } from '@oselya/kit';
import { Registry } from 'prom-client';
import type { Config } from './config.ts';
import {
  getMigrateOptions,
  openDatabase,
  type SharedDatabase,
  checkVectorSupport,
} from './database.ts';
import type { Tables } from './tables.ts';
import { createDisk, type Disk } from './free-disk-space.ts';
import { createImageService } from './images/image-service.ts';
import { openImageStore } from './images/store.ts';
import { createTemporaryFolder } from './images/temporary.ts';
import { createMetrics } from './metrics.ts';
import { storeStartingRates } from './money/rates.ts';
import { openObservedModel } from './model.ts';
import { createArchiveCheck } from './operations/archive-check.ts';
import { createRawCleanup } from './operations/payloads.ts';
import { createPipeline } from './pipeline/pipeline.ts';
import { createJobRunner, type JobRunner } from './queue/job-runner.ts';
import { createJobNotifier } from './queue/notifications.ts';
import { createSafeFetch } from './safe-fetch/fetch.ts';

/** The services that the API and the worker of one process share. */
export type Services = Awaited<ReturnType<typeof createServices>>;

/** Resources that a process with several apps, or a test, shares with the app. The app does not close them. */
export type SharedResources = { database?: SharedDatabase; log?: Logger; disk?: Disk };

/**
 * Opens and migrates the database, and creates the services on it.
 * @throws StartError, DatabaseError
 */
export async function openServices(
  config: Config,
  shared: SharedResources = {},
): Promise<Services> {
  const log = shared.log ?? createLogger({ level: config.LOG_LEVEL, service: 'collector' });
  await using resources = new AsyncDisposableStack();
  const { database, close } = await openDatabase(config, log, shared.database);
  resources.defer(close);
  await migrate(database, getMigrateOptions(config));
  await checkVectorSupport(database.db, config.EMBEDDING_DIMENSIONS);
  await storeStartingRates(database.db);
  const services = await createServices(config, { ...shared, database, log });
  resources.defer(services.close);
  await services.temporary.sweep();
  const ownedResources = resources.move();
  return { ...services, close: () => ownedResources.disposeAsync() };
}

/**
 * Creates the services without querying the database.
 * @throws StartError if the model client rejects the settings.
 */
export async function createServices(
  config: Config,
  dependencies: {
    database: Pick<Database<Tables>, 'db' | 'pool' | 'listen' | 'isExclusive'>;
    log: Logger;
    disk?: Disk;
  },
) {
  const { database, log } = dependencies;
  const { db } = database;
  const registry = new Registry();
  const metrics = createMetrics(registry);
  const folder = join(config.DATA_DIR, 'images');
  await using resources = new AsyncDisposableStack();
  const temporary = createTemporaryFolder(join(folder, 'incoming'));
  resources.defer(temporary.close);
  const imageStore = await openImageStore(config, {
    folder,
    getTemporaryFolder: temporary.path,
    log,
  });
  resources.defer(imageStore.close);
  const model = openObservedModel(config, metrics, log);
  resources.defer(() => model.close());
  const disk =
    dependencies.disk ??
    createDisk({ folder: config.DATA_DIR, minFreeMb: config.MIN_FREE_DISK_MB });
  const jobNotifier = createJobNotifier({
    db,
    onError: (error) => log.warn({ err: error }, 'workers could not be notified'),
  });
  resources.defer(() => jobNotifier.close());
  const fetch = createSafeFetch({ allow: config.SSRF_ALLOW });
  const { MODEL_TIMEOUT_MS: modelTimeoutMs } = config;
  const images = createImageService({
    db,
    store: imageStore.store,
    storeState: imageStore.state,
    getTemporaryFolder: temporary.path,
    disk,
    fetch,
    model,
    log,
    observe: (outcome) => metrics.images.inc({ outcome }),
  });
  const ownedResources = resources.move();
  return {
    log,
    database,
    model,
    images,
    imageStore: imageStore.state,
    disk,
    temporary,
    jobNotifier,
    process: createPipeline({ db, model, images, metrics, log, modelTimeoutMs }),
    archiveCheck: createArchiveCheck({ db, fetch, metrics, log }),
    rawCleanup: createRawCleanup({ db, metrics }),
    registry,
    metrics,
    close: () => ownedResources.disposeAsync(),
  };
}

/** Creates the job runner of a request or a command. */
export function openInlineJobs(config: Config, services: Services): JobRunner {
  const { database, metrics, log } = services;
  const leaseMs = config.COLLECTOR_LEASE_SECONDS * 1000;
  return createJobRunner({ db: database.db, metrics, log, leaseMs });
}
