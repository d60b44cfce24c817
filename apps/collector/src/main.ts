import { mkdir } from 'node:fs/promises';
import { migrate, type MigrationResult } from '@oselya/db';
import { closeServer, createLogger, isLoopback, listen, loadConfig, onDrain } from '@oselya/kit';
import { createApp } from './app.ts';
import { type Config, configSchema, readConfig } from './config.ts';
import { createDiskGate } from './free-disk-space.ts';
import { startDuplicateSearch } from './duplicates/duplicates.ts';
import { getControlImage } from './images/decode.ts';
import { getMigrateOptions, openDatabase, type SharedDatabase } from './database.ts';
import { startModelProbes } from './model.ts';
import { startUpkeep } from './operations/upkeep.ts';
import { serveWorkerHealth } from './operations/monitoring.ts';
import { expireLeases } from './queue/job-writes.ts';
import { CHANNEL } from './queue/notifications.ts';
import { startWorker as startQueueWorker } from './queue/worker.ts';
import { openInlineJobs, openServices, type Services, type Shared } from './services.ts';
import { mapParallel } from './async/concurrency.ts';

export { ModelError } from '@oselya/model';
export { createApiKeyStore, SCOPES } from './access/api-keys.ts';
export { configSchema, readConfig } from './config.ts';
export type { Tables } from './tables.ts';
export { metrics, openapi } from './commands/documents.ts';
export { errors } from './errors.ts';
export { type Maintenance, openMaintenance } from './commands/maintenance.ts';
export type { BackfillReport } from './embeddings/backfill.ts';
export type { ListingSelection } from './reprocess/repository.ts';
export type {
  ExtractionOutcome,
  ImageReprocessOutcome,
  RepeatedExtraction,
  WriteOutcome,
} from './reprocess/reprocess.ts';
export { normaliseText } from './text.ts';
export type { Shared } from './services.ts';
export { openTrial, type Trial, type TrialExtraction } from './commands/trial.ts';

/** A running collector with the URL of its API. */
export type Running = { url: string; close: () => Promise<void> };

type Close = () => Promise<void>;

/** Closes all parts at once, because a broken connection must not keep the worker claiming. */
const closeAll = (parts: readonly Close[]) =>
  mapParallel(parts, Infinity, (close) => close()).then(() => undefined);

/**
 * Starts the collector: the API, and a worker unless `COLLECTOR_WORKER=false`.
 * @param shared Resources of a process with several apps, which stay open.
 * @throws ConfigError, StartError, DatabaseError
 */
export async function start(
  env: NodeJS.ProcessEnv = process.env,
  shared: Shared = {},
): Promise<Running> {
  const config = readConfig(env);
  await mkdir(config.DATA_DIR, { recursive: true });
  // Jobs end before requests, so that the worker claims nothing while slow requests end.
  await using opened = new AsyncDisposableStack();
  const services = await openServices(config, shared);
  opened.defer(services.close);
  const jobs = openInlineJobs(config, services);
  const timeoutMs = shutdownMs(config);
  const parts: Close[] = [() => jobs.close({ timeoutMs })];
  const endWork = () => closeAll(parts.splice(0));
  opened.defer(endWork);
  const app = await createApp(config, services, jobs);
  onDrain(app, endWork);
  opened.defer(() => closeServer(app, timeoutMs));
  await takeOverJobs(services);
  const { COLLECTOR_HOST: host, COLLECTOR_PORT: port } = config;
  const url = await listen(app, { host, port, variable: 'COLLECTOR_PORT' });
  if (config.COLLECTOR_AUTH !== 'required') {
    if (isLoopback(host))
      services.log.info('API keys are off: every user of this machine may use the collector');
    else
      services.log.warn(
        'API keys are off: everyone who can reach this address may use the collector',
      );
  }
  // Work begins only after the port is known to be free.
  if (config.COLLECTOR_WORKER) await startBackgroundWork(config, services, parts);
  const image = config.COLLECTOR_WORKER ? getControlImage : undefined;
  parts.push(startModelProbes(config, { ...services, image }).close);
  const running = opened.move();
  return { url, close: () => running.disposeAsync() };
}

/**
 * Starts a worker without the API.
 * @returns The URL of its health and metrics if COLLECTOR_WORKER_PORT is set.
 */
export async function startWorker(
  env: NodeJS.ProcessEnv = process.env,
  shared: Shared = {},
): Promise<{ url: string | undefined; close: () => Promise<void> }> {
  const config = readConfig(env, { api: false });
  await mkdir(config.DATA_DIR, { recursive: true });
  await using opened = new AsyncDisposableStack();
  const log = shared.log ?? createLogger({ level: config.LOG_LEVEL, service: 'worker' });
  const services = await openServices(config, { ...shared, log });
  opened.defer(services.close);
  const page = await serveWorkerHealth(config, services);
  if (page !== undefined) opened.defer(page.close);
  await takeOverJobs(services);
  const parts: Close[] = [];
  const endWork = () => closeAll(parts.splice(0));
  if (page === undefined) opened.defer(endWork);
  else page.onDrain(endWork);
  await startBackgroundWork(config, services, parts);
  opened.defer(startModelProbes(config, { ...services, image: getControlImage }).close);
  const running = opened.move();
  return { url: page?.url, close: () => running.disposeAsync() };
}

/** Migrates the collector's tables, in the given database or the configured one. */
export async function migrateDatabase(
  env: NodeJS.ProcessEnv = process.env,
  shared?: SharedDatabase,
): Promise<MigrationResult> {
  const config = loadConfig(configSchema, env);
  const log = createLogger({ level: config.LOG_LEVEL, service: 'collector' });
  const { database, close } = await openDatabase(config, log, shared);
  try {
    return await migrate(database, getMigrateOptions(config));
  } finally {
    await close();
  }
}

/** Time for jobs and requests in progress at shutdown. */
const shutdownMs = (config: Config): number => config.COLLECTOR_SHUTDOWN_SECONDS * 1000;

/**
 * Expires the leases of an earlier process if no other process can use the database. Call it before the first request,
 * which may claim its own payload.
 */
async function takeOverJobs({ database }: Services): Promise<void> {
  if (database.isExclusive) await expireLeases(database.db);
}

/** Starts the worker, the upkeep and the search for duplicates, and adds their shutdown to `parts`. */
async function startBackgroundWork(
  config: Config,
  services: Services,
  parts: Close[],
): Promise<void> {
  const { database, model, disk, imageStore, notifications, metrics, log } = services;
  const { db } = database;
  const slots = config.COLLECTOR_WORKERS;
  metrics.workerSlots.set(slots);
  const hasRoom = createDiskGate(disk, log);
  const worker = startQueueWorker({
    db,
    process: async (job, options) => {
      metrics.workerLastClaim.setToCurrentTime();
      metrics.workerJobs.inc();
      try {
        return await services.process(job, options);
      } finally {
        metrics.workerJobs.dec();
      }
    },
    breaker: model.breaker,
    mayClaim: async () => !imageStore.isUnavailable && (await hasRoom()),
    metrics,
    log,
    slots,
    leaseMs: config.COLLECTOR_LEASE_SECONDS * 1000,
    maxAttempts: config.COLLECTOR_MAX_ATTEMPTS,
  });
  parts.push(() => worker.stop({ timeoutMs: shutdownMs(config) }));
  const unsubscribe = notifications.subscribe(worker.notify);
  parts.push(async () => unsubscribe());
  parts.push(await database.listen(CHANNEL, worker.notify));
  parts.push(startUpkeep({ ...services, db, config }).close);
  parts.push(startDuplicateSearch({ ...services, db }).close);
}
