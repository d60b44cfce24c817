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
import { rescueJobs } from './queue/job-writes.ts';
import { QUEUE_CHANNEL } from './queue/notifications.ts';
import { startWorker as startQueueWorker } from './queue/worker.ts';
import { openInlineJobs, openServices, type Services, type SharedResources } from './services.ts';
import { mapParallel } from './async/concurrency.ts';

export { ModelError } from '@oselya/model';
export { createApiKeyStore, SCOPES } from './access/api-keys.ts';
export { configSchema, readConfig } from './config.ts';
export type { Tables } from './tables.ts';
export { metrics, openapi } from './commands/documents.ts';
export { errors } from './errors.ts';
export {
  listLatestRates,
  parseRate,
  type Rate,
  storeRates,
  storeStartingRates,
} from './money/rates.ts';
export { type Maintenance, openMaintenance } from './commands/maintenance.ts';
export type { BackfillReport } from './embeddings/backfill.ts';
export type { ListingSelection } from './reprocess/repository.ts';
export type {
  ExtractionOutcome,
  ImageReprocessOutcome,
  RepeatedExtraction,
  WriteOutcome,
} from './reprocess/reprocess.ts';
export { normalizeText } from './text.ts';
export type { SharedResources } from './services.ts';
export { openTrial, type Trial, type TrialExtraction } from './commands/trial.ts';

/** A running collector with the URL of its API. */
export type RunningCollector = { url: string; close: () => Promise<void> };

type CloseFunction = () => Promise<void>;

/** Closes all parts concurrently, because a broken connection must not keep the worker claiming jobs. */
const closeAll = (closeFunctions: readonly CloseFunction[]) =>
  mapParallel(closeFunctions, Infinity, (close) => close()).then(() => undefined);

/**
 * Starts the collector: the API, and a worker unless `COLLECTOR_WORKER=false`.
 * @param shared Resources that several apps of the process share. `close` leaves them open.
 * @throws ConfigError, StartError, DatabaseError
 */
export async function start(
  env: NodeJS.ProcessEnv = process.env,
  shared: SharedResources = {},
): Promise<RunningCollector> {
  const config = readConfig(env);
  await mkdir(config.DATA_DIR, { recursive: true });
  // Stop the worker before draining requests, so that it claims no jobs while slow requests finish.
  await using resources = new AsyncDisposableStack();
  const services = await openServices(config, shared);
  resources.defer(services.close);
  const jobs = openInlineJobs(config, services);
  const timeoutMs = getShutdownMs(config);
  const closeFunctions: CloseFunction[] = [() => jobs.close({ timeoutMs })];
  const stopBackgroundWork = () => closeAll(closeFunctions.splice(0));
  resources.defer(stopBackgroundWork);
  const app = await createApp(config, services, jobs);
  onDrain(app, stopBackgroundWork);
  resources.defer(() => closeServer(app, timeoutMs));
  await takeOverJobs(config, services);
  const { COLLECTOR_HOST: host, COLLECTOR_PORT: port } = config;
  const url = await listen(app, { host, port, variable: 'COLLECTOR_PORT' });
  if (config.COLLECTOR_AUTH !== 'required') {
    const warning =
      'API keys are off: every client that can reach this address may use the collector';
    if (isLoopback(host))
      services.log.info('API keys are off: every user of this machine may use the collector');
    else services.log.warn(warning);
  }
  // A process that cannot bind its port must not start any work.
  if (config.COLLECTOR_WORKER) await startBackgroundWork(config, services, closeFunctions);
  const image = config.COLLECTOR_WORKER ? getControlImage : undefined;
  closeFunctions.push(startModelProbes(config, { ...services, image }).close);
  const ownedResources = resources.move();
  return { url, close: () => ownedResources.disposeAsync() };
}

/**
 * Starts a worker without the API.
 * @returns The URL of the health and metrics endpoints, if COLLECTOR_WORKER_PORT is set.
 * @throws ConfigError, StartError, DatabaseError
 */
export async function startWorker(
  env: NodeJS.ProcessEnv = process.env,
  shared: SharedResources = {},
): Promise<{ url: string | undefined; close: () => Promise<void> }> {
  const config = readConfig(env, { servesApi: false });
  await mkdir(config.DATA_DIR, { recursive: true });
  await using resources = new AsyncDisposableStack();
  const log = shared.log ?? createLogger({ level: config.LOG_LEVEL, service: 'worker' });
  const services = await openServices(config, { ...shared, log });
  resources.defer(services.close);
  const healthServer = await serveWorkerHealth(config, services);
  if (healthServer !== undefined) resources.defer(healthServer.close);
  await takeOverJobs(config, services);
  const closeFunctions: CloseFunction[] = [];
  const stopBackgroundWork = () => closeAll(closeFunctions.splice(0));
  if (healthServer === undefined) resources.defer(stopBackgroundWork);
  else healthServer.onDrain(stopBackgroundWork);
  await startBackgroundWork(config, services, closeFunctions);
  resources.defer(startModelProbes(config, { ...services, image: getControlImage }).close);
  const ownedResources = resources.move();
  return { url: healthServer?.url, close: () => ownedResources.disposeAsync() };
}

/**
 * Migrates the collector's tables, in the given database or the configured one.
 * @throws ConfigError, DatabaseError
 */
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

/** Returns the time limit, in milliseconds, for jobs and requests in progress at shutdown. */
const getShutdownMs = (config: Config): number => config.COLLECTOR_SHUTDOWN_SECONDS * 1000;

/**
 * Rescues the jobs of an earlier process if no other process can use the database. Call this before the first request,
 * because a request may claim a job, which the rescue would requeue or fail.
 */
async function takeOverJobs(config: Config, { database, log }: Services): Promise<void> {
  const { db, isExclusive } = database;
  const maxAttempts = config.COLLECTOR_MAX_ATTEMPTS;
  if (isExclusive) await rescueJobs({ db, log }, { maxAttempts, isExclusive });
}

/** Starts the worker, the upkeep and the search for duplicates, and adds their shutdown to `closeFunctions`. */
async function startBackgroundWork(
  config: Config,
  services: Services,
  closeFunctions: CloseFunction[],
): Promise<void> {
  const { database, model, disk, imageStore, metrics, log } = services;
  const { db } = database;
  const slots = config.COLLECTOR_WORKERS;
  metrics.workerSlots.set(slots);
  const hasFreeDisk = createDiskGate(disk, log);
  const worker = startQueueWorker({
    db,
    processJob: async (job, run) => {
      metrics.workerLastClaim.setToCurrentTime();
      metrics.workerJobs.inc();
      try {
        return await services.process(job, run);
      } finally {
        metrics.workerJobs.dec();
      }
    },
    breaker: model.breaker,
    canClaim: async () => !imageStore.isUnavailable && (await hasFreeDisk()),
    metrics,
    log,
    slots,
    leaseMs: config.COLLECTOR_LEASE_SECONDS * 1000,
    maxAttempts: config.COLLECTOR_MAX_ATTEMPTS,
  });
  closeFunctions.push(() => worker.stop({ timeoutMs: getShutdownMs(config) }));
  closeFunctions.push(await database.listen(QUEUE_CHANNEL, worker.notify));
  closeFunctions.push(startUpkeep({ ...services, db, config }).close);
  closeFunctions.push(startDuplicateSearch({ ...services, db }).close);
}
