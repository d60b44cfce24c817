import { join } from 'node:path';
import { type Database, migrate } from '@oselya/db';
import { createLogger, type Logger } from '@oselya/kit';
import type { ModelClient } from '@oselya/model';
import { Registry } from 'prom-client';
import type { Config } from './config.ts';
import { migrations, openDatabase, type SharedDatabase, checkVectorSupport } from './database.ts';
import type { Tables } from './tables.ts';
import { createDisk, type Disk } from './disk.ts';
import { createImages, type Images } from './images/images.ts';
import { openImageStore, type StoreState } from './images/store.ts';
import { createTemporaryFolder, type TemporaryFolder } from './images/temporary.ts';
import { createMetrics, type Metrics } from './metrics.ts';
import { openObservedModel } from './model/open.ts';
import { createAsk } from './operations/archive/ask.ts';
import { type ArchiveCheck, createArchiveCheck } from './operations/archive/check.ts';
import { createRawCleanup, type RawCleanup } from './operations/raw/cleanup.ts';
import type { JobInput } from './pipeline/context.ts';
import { createPipeline } from './pipeline/pipeline.ts';
import { createInlineJobs, type InlineJobs } from './queue/inline.ts';
import type { ProcessJob } from './queue/job.ts';
import { createNotifications, type Notifications } from './queue/notifications.ts';
import { createSafeFetch } from './safe-fetch/index.ts';

/** What the API and the worker of one process share. */
export type Services = {
  log: Logger;
  database: Pick<Database<Tables>, 'db' | 'pool' | 'listen' | 'isExclusive'>;
  model: ModelClient;
  images: Images;
  /** Whether the image store can be used. */
  imageStore: StoreState;
  disk: Disk;
  temporary: TemporaryFolder;
  notifications: Notifications;
  /** What is done with a job, be it a worker's or a request's. */
  process: ProcessJob<JobInput>;
  archiveCheck: ArchiveCheck;
  rawCleanup: RawCleanup;
  registry: Registry;
  metrics: Metrics;
  /** Closes what was opened here, in the opposite order. */
  close: () => Promise<void>;
};

/** What a process that runs several apps hands to each, and tests too; the app does not close it. */
export type Shared = { database?: SharedDatabase; log?: Logger; disk?: Disk };

/**
 * Opens the database, brings it up to date, and makes what works on it.
 * @throws StartError, DatabaseError: what is wrong, for the person who starts the platform.
 */
export async function openServices(config: Config, shared: Shared = {}): Promise<Services> {
  const log = shared.log ?? createLogger({ level: config.LOG_LEVEL, service: 'collector' });
  await using opened = new AsyncDisposableStack();
  const { database, close } = await openDatabase(config, log, shared.database);
  opened.defer(close);
  await migrate(database, migrations(config));
  await checkVectorSupport(database.db, config.EMBEDDING_DIMENSIONS);
  const services = await createServices(config, { ...shared, database, log });
  opened.defer(services.close);
  await services.temporary.sweep();
  const running = opened.move();
  return { ...services, close: () => running.disposeAsync() };
}

/** Makes what works on a database, which is not asked for anything yet. */
export async function createServices(
  config: Config,
  given: { database: Services['database']; log: Logger; disk?: Disk },
): Promise<Services> {
  const { database, log } = given;
  const { db } = database;
  const registry = new Registry();
  const metrics = createMetrics(registry);
  const folder = join(config.DATA_DIR, 'images');
  await using opened = new AsyncDisposableStack();
  const temporary = createTemporaryFolder(join(folder, 'incoming'), (error) =>
    log.warn({ err: error }, 'temporary files of killed processes could not be removed'),
  );
  opened.defer(temporary.close);
  const imageStore = await openImageStore(config, { folder, temporary: temporary.path, log });
  opened.defer(imageStore.close);
  const model = openObservedModel(config, metrics, log);
  opened.defer(() => model.close());
  const disk =
    given.disk ?? createDisk({ folder: config.DATA_DIR, minFreeMb: config.MIN_FREE_DISK_MB });
  const notifications = createNotifications({
    db,
    onError: (error) => log.warn({ err: error }, 'workers could not be told of new work'),
  });
  opened.defer(notifications.close);
  const fetch = createSafeFetch({ allow: config.SSRF_ALLOW });
  const modelTimeoutMs = config.MODEL_TIMEOUT_MS;
  const images = createImages({
    db,
    store: imageStore.store,
    storeState: imageStore.state,
    temporary: temporary.path,
    disk,
    fetch,
    model,
    log,
    observe: (outcome) => metrics.images.inc({ outcome }),
  });
  const running = opened.move();
  return {
    log,
    database,
    model,
    images,
    imageStore: imageStore.state,
    disk,
    temporary,
    notifications,
    process: createPipeline({ db, model, images, metrics, log, modelTimeoutMs }),
    archiveCheck: createArchiveCheck({ db, ask: createAsk(fetch), metrics, log }),
    rawCleanup: createRawCleanup({ db, metrics }),
    registry,
    metrics,
    close: () => running.disposeAsync(),
  };
}

/**
 * The jobs that run for whoever waits for them.
 * @typeParam Input What `services.process` takes along with a job.
 */
export function openInlineJobs<Input>(
  config: Config,
  services: Pick<Services, 'database' | 'metrics' | 'log'> & { process: ProcessJob<Input> },
): InlineJobs<Input> {
  const { database, process, metrics, log } = services;
  const leaseMs = config.COLLECTOR_LEASE_SECONDS * 1000;
  return createInlineJobs({ db: database.db, process, metrics, log, leaseMs });
}
