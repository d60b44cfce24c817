import { join } from 'node:path';
import { connect, type Database, migrate } from '@oselya/db';
import { createLogger, type Logger } from '@oselya/kit';
import type { ModelClient } from '@oselya/model';
import { Registry } from 'prom-client';
import type { Config } from './config.ts';
import type { Tables } from './database.ts';
import { checkVectorSupport } from './vector-support.ts';
import { createDisk, type Disk } from './disk.ts';
import {
  createImages,
  createTemporaryFolder,
  type Images,
  openImageStore,
  type TemporaryFolder,
} from './images/index.ts';
import { createMetrics, type Metrics } from './metrics.ts';
import { migrations } from './migrations.ts';
import { openModel } from './model.ts';
import { type ArchiveCheck, createArchiveCheck } from './operations/archive/check.ts';
import { createAsk } from './operations/archive/ask.ts';
import { createRawCleanup, type RawCleanup } from './operations/raw/cleanup.ts';
import { createHints, type Hints } from './queue/hints.ts';
import { createSafeFetch } from './safe-fetch/index.ts';

/** What the API and the worker of one process share. */
export type Services = {
  log: Logger;
  database: Database<Tables>;
  model: ModelClient;
  images: Images;
  disk: Disk;
  temporary: TemporaryFolder;
  hints: Hints;
  archiveCheck: ArchiveCheck;
  rawCleanup: RawCleanup;
  registry: Registry;
  metrics: Metrics;
  /** Closes what was opened here, the model client before the rest. */
  close: () => Promise<void>;
};

/** A database that holds the tables of several apps, each of which knows its own. */
export type SharedDatabase = Omit<Database<Tables>, 'db'> & { readonly db: object };

/** What a process that runs several apps hands to each, and tests too; the app does not close it. */
export type Shared = { database?: SharedDatabase; log?: Logger; disk?: Disk };

/** Connections beside those of the jobs in progress: for requests, leases and the scrape. */
const SPARE_CONNECTIONS = 8;

/**
 * Opens the database, brings it up to date, and makes what works on it.
 * @throws StartError, DatabaseError: what is wrong, for the person who starts the platform.
 */
export async function openServices(config: Config, shared: Shared = {}): Promise<Services> {
  const log = shared.log ?? createLogger({ level: config.LOG_LEVEL, service: 'collector' });
  const registry = new Registry();
  const metrics = createMetrics(registry);
  const folder = join(config.DATA_DIR, 'images');
  await using opened = new AsyncDisposableStack();
  const { database, close } = await openDatabase(config, log, shared.database);
  opened.defer(close);
  await migrate(database, migrations(config));
  await checkVectorSupport(database.db, config.EMBEDDING_DIMENSIONS);
  const temporary = createTemporaryFolder(join(folder, 'incoming'), (error) =>
    log.warn({ err: error }, 'temporary files of killed processes could not be removed'),
  );
  opened.defer(temporary.close);
  await temporary.sweep();
  const { store, close: closeStore } = await openImageStore(config, {
    folder,
    temporary: temporary.path,
  });
  opened.defer(closeStore);
  const model = openObservedModel(config, metrics, log);
  opened.defer(() => model.close());
  const disk =
    shared.disk ?? createDisk({ folder: config.DATA_DIR, minFreeMb: config.MIN_FREE_DISK_MB });
  const hints = createHints({
    db: database.db,
    onError: (error) => log.warn({ err: error }, 'workers could not be told of new work'),
  });
  opened.defer(hints.close);
  const fetch = createSafeFetch({ allow: config.SSRF_ALLOW });
  const images = createImages({
    db: database.db,
    store,
    temporary: temporary.path,
    disk,
    fetch,
    model,
    onError: (error) => log.warn({ err: error }, 'a smaller copy could not be stored'),
    observe: (outcome) => metrics.images.inc({ outcome }),
  });
  const { db } = database;
  const archiveCheck = createArchiveCheck({ db, ask: createAsk(fetch), metrics, log });
  const rawCleanup = createRawCleanup({ db, metrics });
  const running = opened.move();
  return {
    log,
    database,
    model,
    images,
    disk,
    temporary,
    hints,
    archiveCheck,
    rawCleanup,
    registry,
    metrics,
    close: () => running.disposeAsync(),
  };
}

/** Opens the database, or takes the shared one, which then is not closed. */
export async function openDatabase(
  config: Pick<Config, 'DATABASE_URL' | 'DATA_DIR' | 'COLLECTOR_WORKERS' | 'COLLECTOR_UPLOADS'>,
  log: Logger,
  shared?: SharedDatabase,
): Promise<{ database: Database<Tables>; close: () => Promise<void> }> {
  if (shared !== undefined) {
    // Whatever its owner knows of it: after the migration the collector's tables are there.
    return { database: shared as Database<Tables>, close: () => Promise.resolve() };
  }
  const database = await connect<Tables>({
    url: config.DATABASE_URL,
    dataDir: config.DATA_DIR,
    maxConnections: config.COLLECTOR_WORKERS + config.COLLECTOR_UPLOADS + SPARE_CONNECTIONS,
    onError: (error) => log.warn({ err: error }, 'a database connection broke'),
  });
  return { database, close: () => database.close() };
}

/** The configured model, whose requests are counted and whose failures are in the log. */
function openObservedModel(config: Config, metrics: Metrics, log: Logger): ModelClient {
  const model = openModel(config, {
    observe: ({ operation, outcome, durationMs, inputTokens, outputTokens }) => {
      metrics.modelRequests.inc({ operation, outcome });
      metrics.modelRequestDuration.observe({ operation }, durationMs / 1000);
      metrics.modelTokens.inc({ operation, direction: 'input' }, inputTokens ?? 0);
      metrics.modelTokens.inc({ operation, direction: 'output' }, outputTokens ?? 0);
      if (outcome === 'ok') return;
      const duration_ms = Math.round(durationMs);
      log.warn({ operation, outcome, duration_ms }, 'a request to the model failed');
    },
  });
  model.breaker.onChange((state) => {
    metrics.modelBreakerOpen.set(state === 'closed' ? 0 : 1);
    log.warn({ state }, 'the breaker of the model server changed');
  });
  return model;
}
