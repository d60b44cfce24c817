import { isDatabaseOutage } from '@oselya/db';
import { createRateLimit, createServer, type Server } from '@oselya/kit';
import manifest from '../package.json' with { type: 'json' };
import { createApiKeyStore } from './access/api-keys.ts';
import { API_KEY_SCHEME, guardRoutes, rejectCrossSiteRequests } from './access/guard.ts';
import type { Config } from './config.ts';
import { imageRoutes } from './images/routes.ts';
import { StoreOutageError } from './images/store.ts';
import { limitSources, createIngest } from './ingest/service.ts';
import { ingestRoutes } from './ingest/routes.ts';
import { createProcessForm } from './ingest/process-form.ts';
import { withImagesRoutes } from './ingest/with-images.ts';
import { BODY_LIMIT } from './schemas.ts';
import { changeRoutes } from './listing/changes.ts';
import { listingRoutes } from './listing/routes.ts';
import type { JobInput } from './pipeline/context.ts';
import { monitoringRoutes } from './operations/monitoring.ts';
import type { InlineJobs } from './queue/inline.ts';
import { operationRoutes } from './operations/routes.ts';
import { searchRoutes } from './search/routes.ts';
import type { Services } from './services.ts';

const TAGS = [
  { name: 'ingest', description: 'Payloads of sources, and their processing.' },
  { name: 'search', description: 'Listings by words, by meaning, or by both.' },
  { name: 'listings', description: 'One listing, its history and its images.' },
  { name: 'images', description: 'The bytes of images.' },
  { name: 'operations', description: 'For operators.' },
];

/** Creates the collector's HTTP API. Specification 001, Endpoints; Contract 4. */
export async function createApp(
  config: Config,
  services: Services,
  jobs: InlineJobs<JobInput>,
): Promise<Server> {
  const { log, database, model, images, imageStore, disk, temporary } = services;
  const { notifications, metrics } = services;
  const { db, pool } = database;
  const app = await createServer({
    log,
    bodyLimit: BODY_LIMIT,
    isOutage: (error) => isDatabaseOutage(error) || error instanceof StoreOutageError,
    openapi: {
      title: 'Oselya collector',
      description:
        'Accepts property listings, reads them with a language model, and searches them.',
      version: manifest.version,
      tags: TAGS,
      securitySchemes: { api_key: API_KEY_SCHEME },
    },
  });
  if (config.COLLECTOR_AUTH !== 'required') {
    rejectCrossSiteRequests(app, { onlyThisMachine: config.COLLECTOR_AUTH === undefined });
  }
  app.get('/', { schema: { hide: true } }, (_request, reply) => reply.redirect('/docs'));
  const readQueue = monitoringRoutes(app, { ...services, metricsToken: config.METRICS_TOKEN });

  const limit = (name: string, variable: MinuteLimit, what?: string) => {
    const named = { pool, table: 'rate_limits', name, variable };
    return createRateLimit({ ...named, perMinute: config[variable], ...(what && { what }) });
  };
  const sourcesPerDay = config.COLLECTOR_NEW_SOURCES_PER_DAY;
  await app.register(
    async (api) => {
      guardRoutes(
        api,
        config.COLLECTOR_AUTH === 'required' ? createApiKeyStore({ db }) : undefined,
      );
      const ingestLimit = limitSources({
        db,
        perSource: limit('ingest', 'COLLECTOR_INGEST_PER_MINUTE', 'payloads of one source'),
        newSources:
          sourcesPerDay === 0
            ? undefined
            : createRateLimit({
                pool,
                table: 'rate_limits',
                name: 'sources',
                perDay: sourcesPerDay,
                variable: 'COLLECTOR_NEW_SOURCES_PER_DAY',
                what: 'new sources for one API key, or address without one,',
              }),
      });
      const ingest = createIngest({ db, onAccepted: notifications.send, log });
      ingestRoutes(api, { ingest, limit: ingestLimit, metrics });
      await api.register(withImagesRoutes, {
        processForm: createProcessForm({
          db,
          store: ingest.store,
          jobs,
          leaseMs: config.COLLECTOR_LEASE_SECONDS * 1000,
        }),
        limit: ingestLimit,
        breaker: model.breaker,
        imageStore,
        disk,
        temporary: temporary.path,
        atOnce: config.COLLECTOR_UPLOADS,
        metrics,
      });
      listingRoutes(api, { db });
      changeRoutes(api, { db, limit: limit('changes', 'COLLECTOR_FULLTEXT_PER_MINUTE') });
      imageRoutes(api, images);
      searchRoutes(api, {
        db,
        model,
        dimensions: config.EMBEDDING_DIMENSIONS,
        limits: {
          fulltext: limit('fulltext', 'COLLECTOR_FULLTEXT_PER_MINUTE'),
          similar: limit('similar', 'COLLECTOR_FULLTEXT_PER_MINUTE'),
        },
        metrics,
      });
      operationRoutes(api, { ...services, db, readQueue, onRetried: notifications.send });
    },
    { prefix: '/api/v1' },
  );
  return app;
}

/** The variables of limits per minute. */
type MinuteLimit = 'COLLECTOR_INGEST_PER_MINUTE' | 'COLLECTOR_FULLTEXT_PER_MINUTE';
