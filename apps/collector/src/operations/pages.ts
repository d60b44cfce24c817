import { healthRoutes, registerHttpMetrics, type Server } from '@oselya/kit';
import type { Config } from '../config.ts';
import { registerDuplicateMetrics } from '../duplicates/metrics.ts';
import type { Services } from '../services.ts';
import { registerDiskMetrics } from './disk-metrics.ts';
import { createHealthChecks } from './health.ts';
import type { ReadQueue } from './queue-figures.ts';
import { registerQueueMetrics } from './queue-metrics.ts';

/**
 * What whoever watches a process asks it for, on the API and on a worker alone: `GET /health`,
 * `/health/live`, `/health/ready` and `/metrics`. They need no key. Contract 4, Health and Metrics.
 */
export function operationPages(
  app: Server,
  deps: {
    config: Pick<Config, 'DATA_DIR' | 'MIN_FREE_DISK_MB'>;
    services: Pick<Services, 'log' | 'database' | 'model' | 'registry'>;
    readQueue: ReadQueue;
  },
): void {
  const { config, services, readQueue } = deps;
  const { log, database, model, registry } = services;
  const { DATA_DIR: folder, MIN_FREE_DISK_MB: minFreeDiskMb } = config;
  registerHttpMetrics(app, registry);
  registerQueueMetrics(registry, {
    readQueue,
    onError: (error) => log.warn({ err: error }, 'the queue could not be measured'),
  });
  registerDuplicateMetrics(registry, {
    db: database.db,
    onError: (error) => log.warn({ err: error }, 'the search for duplicates could not be measured'),
  });
  registerDiskMetrics(registry, {
    folder,
    minFreeDiskMb,
    onError: (error) => log.warn({ err: error }, 'the disk could not be measured'),
  });
  healthRoutes(app, createHealthChecks({ db: database.db, model, folder, minFreeDiskMb }));
}
