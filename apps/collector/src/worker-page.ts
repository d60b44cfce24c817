import { closeServer, createServer, listen, onDrain } from '@oselya/kit';
import manifest from '../package.json' with { type: 'json' };
import type { Config } from './config.ts';
import type { Services } from './services.ts';
import { operationPages } from './operations/pages.ts';

/** Its routes take no bodies. */
const BODY_LIMIT = 1024;

/** Its requests are short. */
const SHUTDOWN_MS = 1000;

/** The health endpoint of a standalone worker. */
export type WorkerPage = {
  url: string;
  /** Registers work that ends before the page closes. */
  onDrain: (end: () => Promise<void>) => void;
  close: () => Promise<void>;
};

/**
 * Serves the health and the metrics of a worker alone, for orchestrators and Prometheus.
 * @throws StartError where it cannot listen on COLLECTOR_WORKER_HOST and COLLECTOR_WORKER_PORT.
 */
export async function openWorkerPage(
  config: Config & { COLLECTOR_WORKER_PORT: number },
  services: Services,
): Promise<WorkerPage> {
  const { log } = services;
  const app = await createServer({
    log,
    bodyLimit: BODY_LIMIT,
    openapi: {
      title: 'Oselya worker',
      description: 'How a worker of the collector is.',
      version: manifest.version,
      tags: [{ name: 'operations', description: 'For those who run it.' }],
    },
  });
  operationPages(app, { ...services, metricsToken: config.METRICS_TOKEN });
  const { COLLECTOR_WORKER_HOST: host, COLLECTOR_WORKER_PORT: port } = config;
  const url = await listen(app, { host, port, variable: 'COLLECTOR_WORKER_PORT' });
  return {
    url,
    onDrain: (end) => onDrain(app, end),
    close: () => closeServer(app, SHUTDOWN_MS),
  };
}
