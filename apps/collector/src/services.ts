import { join } from 'node:path';
import { connect, type Database, migrate } from '@oselya/db';
import { createLogger, type Logger, StartError } from '@oselya/kit';
import { createModelClient, type ModelClient, ModelError } from '@oselya/model';
import { Registry } from 'prom-client';
import type { Config } from './config.ts';
import type { Tables } from './database.ts';
import { checkVectorSupport } from './vector-support.ts';
import { createImages, type Images, removeLeftovers } from './images/index.ts';
import { createMetrics, type Metrics } from './metrics.ts';
import { migrations } from './migrations.ts';
import { createHints, type Hints } from './queue/hints.ts';

/** What the API and the worker of one process share. */
export type Services = {
  log: Logger;
  database: Database<Tables>;
  model: ModelClient;
  images: Images;
  hints: Hints;
  registry: Registry;
  metrics: Metrics;
  /** Closes what was opened here, the model client first. */
  close: () => Promise<void>;
};

/** A database that holds the tables of several apps, each of which knows its own. */
export type SharedDatabase = Omit<Database<Tables>, 'db'> & { readonly db: object };

/** What a process that runs several apps hands to each; the app does not close it. */
export type Shared = { database?: SharedDatabase; log?: Logger };

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
  const model = openModel(config, metrics);
  const imageFolder = join(config.DATA_DIR, 'images');
  const { database, close } = await openDatabase(config, log, shared.database);
  try {
    await migrate(database, migrations(config));
    await checkVectorSupport(database.db, config.EMBEDDING_DIMENSIONS);
    await removeLeftovers(imageFolder);
  } catch (error) {
    await close();
    throw error;
  }
  const hints = createHints({
    db: database.db,
    onError: (error) => log.warn({ err: error }, 'workers could not be told of new work'),
  });
  const images = createImages({
    db: database.db,
    folder: imageFolder,
    allow: config.SSRF_ALLOW,
    model,
    observe: (outcome) => metrics.images.inc({ outcome }),
  });
  return {
    log,
    database,
    model,
    images,
    hints,
    registry,
    metrics,
    async close() {
      await hints.close();
      await model.close();
      await close();
    },
  };
}

/** Opens the database, or takes the shared one, which then is not closed. */
export async function openDatabase(
  config: Pick<Config, 'DATABASE_URL' | 'DATA_DIR' | 'COLLECTOR_WORKERS'>,
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
    maxConnections: config.COLLECTOR_WORKERS + SPARE_CONNECTIONS,
    onError: (error) => log.warn({ err: error }, 'a database connection broke'),
  });
  return { database, close: () => database.close() };
}

function openModel(config: Config, metrics: Metrics): ModelClient {
  try {
    const model = createModelClient({
      mode: config.MODEL_MODE,
      baseUrl: config.MODEL_BASE_URL,
      apiKey: config.MODEL_API_KEY,
      chat: config.MODEL_CHAT,
      vision: config.MODEL_VISION,
      embedding: config.MODEL_EMBEDDING,
      timeoutMs: config.MODEL_TIMEOUT_MS,
      embeddingDimensions: config.EMBEDDING_DIMENSIONS,
      observe: ({ operation, outcome, durationMs }) => {
        metrics.modelRequests.inc({ operation, outcome });
        metrics.modelRequestDuration.observe({ operation }, durationMs / 1000);
      },
    });
    model.breaker.onChange((state) => metrics.modelBreakerOpen.set(state === 'closed' ? 0 : 1));
    return model;
  } catch (error) {
    if (error instanceof ModelError) throw new StartError(error.message, { cause: error });
    throw error;
  }
}
