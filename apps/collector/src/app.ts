import { isDatabaseOutage } from '@oselya/db';
import { createRateLimit, createServer, type RateLimit, type Server } from '@oselya/kit';
import manifest from '../package.json' with { type: 'json' };
import { createApiKeys } from './access/api-keys.ts';
import { API_KEY_SCHEME, guardRoutes, rejectOtherPages } from './access/guard.ts';
import type { Config } from './config.ts';
import { imageRoutes } from './images/routes.ts';
import { StoreOutageError } from './images/store.ts';
import { limitSources } from './ingest/limit-source.ts';
import { isKnownSource } from './ingest/repository.ts';
import { ingestRoutes } from './ingest/routes.ts';
import { createIngest } from './ingest/service.ts';
import { withImagesRoutes } from './ingest/with-images/routes.ts';
import { createProcessForm } from './ingest/with-images/service.ts';
import { BODY_LIMIT } from './schemas.ts';
import { changeRoutes } from './listing/changes/routes.ts';
import { listingRoutes } from './listing/routes.ts';
import type { JobInput } from './pipeline/context.ts';
import { operationPages } from './operations/pages.ts';
import type { InlineJobs } from './queue/inline.ts';
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
      description: 'Takes property listings in, has a language model read them, and searches them.',
      version: manifest.version,
      tags: TAGS,
      securitySchemes: { api_key: API_KEY_SCHEME },
    },
  });
  if (config.COLLECTOR_AUTH !== 'required') {
    rejectOtherPages(app, { onlyThisMachine: config.COLLECTOR_AUTH === undefined });
  }
  app.get('/', { schema: { hide: true } }, (_request, reply) => reply.redirect('/docs'));
  const readQueue = operationPages(app, { ...services, metricsToken: config.METRICS_TOKEN });

  const limit = (name: string, variable: MinuteLimit, what?: string) =>
    createRateLimit({
      pool,
      table: 'rate_limits',
      name,
      perMinute: config[variable],
      variable,
      ...(what !== undefined && { what }),
    });
  await app.register(
    async (api) => {
      guardRoutes(api, config.COLLECTOR_AUTH === 'required' ? createApiKeys({ db }) : undefined);
      const ingestLimit = limitSources({
        perSource: limit('ingest', 'COLLECTOR_INGEST_PER_MINUTE', 'payloads of one source'),
        newSources: limitNewSources(config, pool),
        isKnown: (source) => isKnownSource(db, source),
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

/** The variables of limits that count by the minute. */
type MinuteLimit = 'COLLECTOR_INGEST_PER_MINUTE' | 'COLLECTOR_FULLTEXT_PER_MINUTE';

/** How many sources one caller may bring into being a day; undefined for no limit. */
function limitNewSources(
  { COLLECTOR_NEW_SOURCES_PER_DAY: perDay }: Config,
  pool: object,
): RateLimit | undefined {
  if (perDay === 0) return undefined;
  return createRateLimit({
    pool,
    table: 'rate_limits',
    name: 'sources',
    perDay,
    variable: 'COLLECTOR_NEW_SOURCES_PER_DAY',
    what: 'new sources for one API key, or address without one,',
  });
}
