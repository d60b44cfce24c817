import { isDatabaseOutage } from '@oselya/db';
import {
  createRateLimit,
  createServer,
  healthRoutes,
  registerHttpMetrics,
  type Server,
} from '@oselya/kit';
import { createApiKeys } from './access/api-keys.ts';
import { API_KEY_SCHEME, guardRoutes } from './access/guard.ts';
import { refuseOtherPages } from './access/local-only.ts';
import type { Config } from './config.ts';
import { imageRoutes } from './images/index.ts';
import { ingestRoutes } from './ingest/routes.ts';
import { createIngest } from './ingest/service.ts';
import { BODY_LIMIT } from './limits.ts';
import { listingRoutes } from './listings/routes.ts';
import { createHealthChecks } from './operations/health.ts';
import { createReadQueue } from './operations/queue-figures.ts';
import { readQueueFigures } from './operations/queue-figures.sql.ts';
import { registerQueueMetrics } from './operations/queue-metrics.ts';
import { createRetry } from './operations/retry.ts';
import { operationRoutes } from './operations/routes.ts';
import { searchRoutes } from './search/routes.ts';
import type { Services } from './services.ts';

const TAGS = [
  { name: 'ingest', description: 'Sources send payloads, and see what became of them.' },
  { name: 'search', description: 'Listings by words, by meaning, or by both.' },
  { name: 'listings', description: 'One listing, its history and its pictures.' },
  { name: 'images', description: 'The bytes of pictures.' },
  { name: 'operations', description: 'For those who run it.' },
];

/** Composes the collector's HTTP API. Specification 001, Endpoints; Contract 4. */
export async function createApp(config: Config, services: Services): Promise<Server> {
  const { log, database, model, images, hints, registry, metrics } = services;
  const { db, pool } = database;
  const app = await createServer({
    log,
    bodyLimit: BODY_LIMIT,
    isOutage: isDatabaseOutage,
    openapi: {
      title: 'Oselya collector',
      description: 'Takes property listings in, has a language model read them, and searches them.',
      version: '0.1.0',
      tags: TAGS,
      securitySchemes: { api_key: API_KEY_SCHEME },
    },
  });
  if (config.COLLECTOR_AUTH !== 'required') {
    refuseOtherPages(app, { onlyThisMachine: config.COLLECTOR_AUTH === undefined });
  }
  app.get('/', { schema: { hide: true } }, (_request, reply) => reply.redirect('/docs'));
  registerHttpMetrics(app, registry);
  const readQueue = createReadQueue(() => readQueueFigures(db));
  registerQueueMetrics(registry, {
    readQueue,
    onError: (error) => log.warn({ err: error }, 'the queue could not be measured'),
  });
  healthRoutes(
    app,
    createHealthChecks({
      db,
      model,
      folder: config.DATA_DIR,
      minFreeDiskMb: config.MIN_FREE_DISK_MB,
    }),
  );

  const limit = (name: string, perMinute: number) =>
    createRateLimit({ pool, table: 'rate_limits', name, perMinute });
  await app.register(
    async (api) => {
      guardRoutes(api, config.COLLECTOR_AUTH === 'required' ? createApiKeys({ db }) : undefined);
      ingestRoutes(api, {
        ingest: createIngest({ db, onAccepted: hints.raise }),
        limit: limit('ingest', config.COLLECTOR_INGEST_PER_MINUTE),
        metrics,
      });
      listingRoutes(api, { db });
      imageRoutes(api, images);
      searchRoutes(api, {
        db,
        model,
        dimensions: config.EMBEDDING_DIMENSIONS,
        limit: limit('fulltext', config.COLLECTOR_FULLTEXT_PER_MINUTE),
        metrics,
      });
      const retry = createRetry({ db, onRetried: hints.raise });
      operationRoutes(api, { readQueue, model, retry });
    },
    { prefix: '/api/v1' },
  );
  return app;
}
