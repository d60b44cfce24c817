import type { Database } from '@oselya/db';
import { healthRoutes, type Logger, registerHttpMetrics, type Server } from '@oselya/kit';
import type { ModelClient } from '@oselya/model';
import type { Registry } from 'prom-client';
import type { Tables } from '../tables.ts';
import type { Disk } from '../disk.ts';
import { registerDiskMetrics } from '../disk.ts';
import { registerDuplicateMetrics } from '../duplicates/index.ts';
import { registerStoreMetrics, type StoreState } from '../images/store.ts';
import { registerModelMetrics } from '../model/metrics.ts';
import { createQueueFigures, type ReadQueue, registerQueueMetrics } from '../queue/figures.ts';
import { createHealthChecks } from './health.ts';

/**
 * What whoever watches a process asks it for, on the API and on a worker alone: `GET /health`,
 * `/health/live`, `/health/ready` and `/metrics`. They need no API key. Contract 4, Health and Metrics.
 * @returns How the queue stands, for others who show it.
 */
export function operationPages(
  app: Server,
  deps: {
    database: Pick<Database<Tables>, 'db'>;
    model: Pick<ModelClient, 'health' | 'breaker'>;
    disk: Disk;
    imageStore: StoreState;
    registry: Registry;
    log: Logger;
    metricsToken: string;
  },
): ReadQueue {
  const { registry, model, disk, log } = deps;
  const { db } = deps.database;
  registerHttpMetrics(app, registry, { token: deps.metricsToken });
  const queue = createQueueFigures({
    db,
    onError: (error) => log.warn({ err: error }, 'what has ended could not be counted'),
  });
  app.addHook('onClose', () => queue.close());
  registerQueueMetrics(registry, {
    readQueue: queue.read,
    onError: (error) => log.warn({ err: error }, 'the queue could not be measured'),
  });
  registerModelMetrics(registry, model);
  registerStoreMetrics(registry, deps);
  registerDuplicateMetrics(registry, {
    db,
    onError: (error) => log.warn({ err: error }, 'the search for duplicates could not be measured'),
  });
  registerDiskMetrics(registry, {
    disk,
    onError: (error) => log.warn({ err: error }, 'the disk could not be measured'),
  });
  healthRoutes(app, createHealthChecks({ ...deps, db }));
  return queue.read;
}
