import { mkdir } from 'node:fs/promises';
import { connect, migrate, type MigrationResult } from '@oselya/db';
import { createLogger, listen, loadConfig } from '@oselya/kit';
import { announceOpenAccess } from './access/open-access.ts';
import { createApp } from './app.ts';
import { type Config, configSchema, readConfig } from './config.ts';
import type { Tables } from './database.ts';
import { migrations } from './migrations.ts';
import { createPipeline } from './pipeline/pipeline.ts';
import { CHANNEL } from './queue/hints.ts';
import { expireLeases } from './queue/repository.ts';
import { startWorker as startQueueWorker } from './queue/worker.ts';
import {
  openDatabase,
  openServices,
  type Services,
  type Shared,
  type SharedDatabase,
} from './services.ts';
import { type Close, closeServer, closeTogether } from './shutdown.ts';

export { createApiKeys, SCOPES } from './access/api-keys.ts';
export { configSchema, readConfig } from './config.ts';
export type { Tables } from './database.ts';
export { errors } from './errors.ts';
export type { Shared } from './services.ts';

export type Running = { url: string; close: () => Promise<void> };

/** All that jobs and requests in progress at shutdown get. Contract 4, Queue. */
const SHUTDOWN_MS = 60_000;

/**
 * Starts the collector: the API, and a worker too unless `COLLECTOR_WORKER=false`.
 * @param shared What a process that runs several apps has opened; it stays open.
 * @throws ConfigError, StartError, DatabaseError: each for the person who starts it.
 */
export async function start(
  env: NodeJS.ProcessEnv = process.env,
  shared: Shared = {},
): Promise<Running> {
  const config = readConfig(env);
  await mkdir(config.DATA_DIR, { recursive: true });
  // What was opened is closed in the opposite order, also when the start fails half-way; the API and
  // the worker end together, since a worker must not go on claiming while slow requests end.
  await using opened = new AsyncDisposableStack();
  const services = await openServices(config, shared);
  opened.defer(services.close);
  const parts: Close[] = [];
  opened.defer(() => closeTogether(parts));
  if (config.COLLECTOR_WORKER) parts.push((await work(config, services)).close);
  const app = await createApp(config, services);
  parts.push(() => closeServer(app, SHUTDOWN_MS));
  const { COLLECTOR_HOST: host, COLLECTOR_PORT: port } = config;
  const url = await listen(app, { host, port, variable: 'COLLECTOR_PORT' });
  announceOpenAccess(services.log, config);
  const running = opened.move();
  return { url, close: () => running.disposeAsync() };
}

/** Starts a worker alone, without the API. */
export async function startWorker(
  env: NodeJS.ProcessEnv = process.env,
  shared: Shared = {},
): Promise<{ close: () => Promise<void> }> {
  const config = readConfig(env, { api: false });
  await mkdir(config.DATA_DIR, { recursive: true });
  await using opened = new AsyncDisposableStack();
  const services = await openServices(config, shared);
  opened.defer(services.close);
  opened.defer((await work(config, services)).close);
  const running = opened.move();
  return { close: () => running.disposeAsync() };
}

/** Brings the collector's tables up to date, in the given database or the configured one. */
export async function migrateDatabase(
  env: NodeJS.ProcessEnv = process.env,
  shared?: SharedDatabase,
): Promise<MigrationResult> {
  const config = loadConfig(configSchema, env);
  const log = createLogger({ level: config.LOG_LEVEL, service: 'collector' });
  const { database, close } = await openDatabase(config, log, shared);
  try {
    return await migrate(database, migrations(config));
  } finally {
    await close();
  }
}

/** The OpenAPI document, made without listening and without any of the environment. */
export async function openapi(): Promise<object> {
  await using opened = new AsyncDisposableStack();
  const database = await connect<Tables>({});
  opened.defer(database.close);
  const config = readConfig({});
  const log = createLogger({ level: 'silent', service: 'collector' });
  const services = await openServices(config, { database, log });
  opened.defer(services.close);
  const app = await createApp(config, services);
  opened.defer(async () => app.close());
  await app.ready();
  return app.swagger();
}

async function work(config: Config, services: Services): Promise<{ close: () => Promise<void> }> {
  const { database, model, images, hints, metrics, log } = services;
  // The embedded database belongs to one process: what is claimed was left by one that has ended, and
  // need not wait for its lease to run out.
  if (database.engine === 'pglite') await expireLeases(database.db);
  const worker = startQueueWorker({
    db: database.db,
    process: createPipeline({
      db: database.db,
      model,
      images,
      metrics,
      log,
      modelTimeoutMs: config.MODEL_TIMEOUT_MS,
    }),
    breaker: model.breaker,
    metrics,
    log,
    slots: config.COLLECTOR_WORKERS,
    leaseMs: config.COLLECTOR_LEASE_SECONDS * 1000,
    maxAttempts: config.COLLECTOR_MAX_ATTEMPTS,
  });
  const forget = hints.onHint(worker.hint);
  const unlisten = await database.listen(CHANNEL, worker.hint);
  return {
    async close() {
      forget();
      // A connection that is gone must not keep the worker claiming until that is noticed.
      await closeTogether([() => worker.stop({ timeoutMs: SHUTDOWN_MS }), unlisten]);
    },
  };
}
