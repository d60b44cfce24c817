import { type Database, ping } from '@oselya/db';
import {
  closeServer,
  createServer,
  registerHealthRoutes,
  listen,
  type Logger,
  onDrain,
  registerHttpMetrics,
  type Server,
} from '@oselya/kit';
import type { ModelClient } from '@oselya/model';
import type { Registry } from 'prom-client';
import manifest from '../../package.json' with { type: 'json' };
import type { Config } from '../config.ts';
import { type Disk, registerDiskMetrics } from '../free-disk-space.ts';
import { registerDuplicateMetrics } from '../duplicates/duplicates.ts';
import { registerStoreMetrics, type StoreState } from '../images/store.ts';
import { registerModelMetrics } from '../model.ts';
import {
  createQueueStatisticsReader,
  type ReadQueueStatistics,
  registerQueueMetrics,
} from '../queue/statistics.ts';
import { MEBIBYTE } from '../schemas.ts';
import type { Tables } from '../tables.ts';

type MonitoringDeps = {
  database: Pick<Database<Tables>, 'db'>;
  model: Pick<ModelClient, 'health' | 'breaker'>;
  disk: Disk;
  imageStore: StoreState;
  registry: Registry;
  log: Logger;
};

/**
 * Registers `GET /health`, `/health/live`, `/health/ready` and `/metrics`, for the API and for a standalone worker.
 * These routes need no API key. Contract 4, Health and Metrics.
 * @returns A function that reads the state of the queue.
 */
export function registerMonitoringRoutes(
  app: Server,
  deps: MonitoringDeps & { metricsToken: string },
): ReadQueueStatistics {
  const { registry, model, disk, imageStore, log } = deps;
  const { db } = deps.database;
  const createWarning = (subject: string) => (error: unknown) =>
    log.warn({ err: error }, `${subject} could not be measured`);
  registerHttpMetrics(app, registry, { token: deps.metricsToken });
  const readQueue = createQueueStatisticsReader({
    db,
    onError: createWarning('ended payloads'),
  });
  registerQueueMetrics(registry, { readQueue, onError: createWarning('the queue') });
  registerModelMetrics(registry, model);
  registerStoreMetrics(registry, deps);
  registerDuplicateMetrics(registry, { db, onError: createWarning('the search for duplicates') });
  registerDiskMetrics(registry, { disk, onError: createWarning('the disk') });
  registerHealthRoutes(app, {
    database: async () => {
      await ping(db);
      return { status: 'ok' };
    },
    // A model or image store outage only degrades the service: payloads wait, and full-text search works.
    model: async (signal) => {
      const { status, mode, detail } = await model
        .health({ signal })
        .catch((error: unknown) => ({ status: 'down', mode: undefined, detail: String(error) }));
      return {
        status: status === 'ok' ? 'ok' : 'degraded',
        mode,
        breaker: model.breaker.state,
        ...(detail !== undefined && { detail }),
      };
    },
    disk: async (signal) => {
      const [freeBytes, isAvailable] = await Promise.all([
        disk.readFreeBytes(),
        imageStore.isReachable(signal),
      ]);
      return {
        status: freeBytes < disk.minFreeBytes ? 'down' : isAvailable ? 'ok' : 'degraded',
        free_mb: Math.floor(freeBytes / MEBIBYTE),
        min_free_mb: disk.minFreeBytes / MEBIBYTE,
        image_store: isAvailable ? 'ok' : 'away',
      };
    },
  });
  return readQueue;
}

/**
 * Serves the health and metrics of a standalone worker, for orchestrators and Prometheus.
 * @returns The running server, or undefined if COLLECTOR_WORKER_PORT is not set.
 * @throws StartError if the server cannot listen on COLLECTOR_WORKER_HOST and COLLECTOR_WORKER_PORT.
 */
export async function serveWorkerHealth(config: Config, deps: MonitoringDeps) {
  const { COLLECTOR_WORKER_HOST: host, COLLECTOR_WORKER_PORT: port } = config;
  if (port === undefined) return undefined;
  const app = await createServer({
    log: deps.log,
    bodyLimit: 1024,
    openapi: {
      title: 'Oselya worker',
      description: 'The health of a worker of the collector.',
      version: manifest.version,
      tags: [{ name: 'operations', description: 'For operators.' }],
    },
  });
  registerMonitoringRoutes(app, { ...deps, metricsToken: config.METRICS_TOKEN });
  const url = await listen(app, { host, port, variable: 'COLLECTOR_WORKER_PORT' });
  deps.log.info({ url }, 'the worker serves its health and metrics');
  return {
    url,
    onDrain: (onEnd: () => Promise<void>) => onDrain(app, onEnd),
    close: () => closeServer(app, 1000),
  };
}
