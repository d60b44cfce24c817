import { isDatabaseOutage } from '@oselya/db';
import { createRateLimit, createServer, type Server } from '@oselya/kit';
import manifest from '../package.json' with { type: 'json' };
import { createApiKeyStore } from './access/api-keys.ts';
import { API_KEY_SCHEME, guardRoutes, rejectCrossSiteRequests } from './access/guard.ts';
import { createSourceLimit } from './access/source-limit.ts';
import type { Config } from './config.ts';
import { registerImageRoutes } from './images/routes.ts';
import { StoreOutageError } from './images/store.ts';
import { createIngest } from './ingest/store.ts';
import { registerIngestRoutes } from './ingest/routes.ts';
import { createProcessForm } from './ingest/process-form.ts';
import { registerUploadRoutes } from './ingest/with-images.ts';
import { MAX_BODY_BYTES } from './schemas.ts';
import { registerChangeRoutes } from './listing/changes.ts';
import { registerVerdictRoutes } from './duplicates/verdicts.ts';
import { registerPriceRoute } from './listing/price-history.ts';
import { registerListingRoutes } from './listing/routes.ts';
import { registerMonitoringRoutes } from './operations/monitoring.ts';
import type { JobRunner } from './queue/job-runner.ts';
import { registerOperationRoutes } from './operations/routes.ts';
import { BROWSE_LIMIT_FACTOR, registerSearchRoutes } from './search/routes.ts';
import type { Services } from './services.ts';

const OPENAPI_TAGS = [
  { name: 'ingest', description: 'Payloads of sources, and their processing.' },
  { name: 'search', description: 'Listings by words, by meaning, or by both.' },
  { name: 'listings', description: 'One listing, its history and its images.' },
  { name: 'images', description: 'Image files.' },
  { name: 'operations', description: 'For operators.' },
];

/** Creates the collector's HTTP API. Specification 001, Endpoints; Contract 4. */
export async function createApp(
  config: Config,
  services: Services,
  jobs: JobRunner,
): Promise<Server> {
  const { log, database, model, images, imageStore, disk, temporary } = services;
  const { jobNotifier, metrics } = services;
  const { db, pool } = database;
  const app = await createServer({
    log,
    bodyLimit: MAX_BODY_BYTES,
    isOutage: (error) => isDatabaseOutage(error) || error instanceof StoreOutageError,
    openapi: {
      title: 'Oselya collector',
      description:
        'Accepts property listings, extracts their facts with a language model, and searches them.',
      version: manifest.version,
      tags: OPENAPI_TAGS,
      securitySchemes: { api_key: API_KEY_SCHEME },
    },
  });
  if (config.COLLECTOR_AUTH !== 'required') {
    rejectCrossSiteRequests(app, { isLoopbackOnly: config.COLLECTOR_AUTH === undefined });
  }
  app.get('/', { schema: { hide: true } }, (_request, reply) => reply.redirect('/docs'));
  const readQueue = registerMonitoringRoutes(app, {
    ...services,
    metricsToken: config.METRICS_TOKEN,
  });

  const rateLimitOptions = { pool, table: 'rate_limits' };
  const createSearchLimit = (name: string, factor = 1) => {
    const variable = 'COLLECTOR_FULLTEXT_PER_MINUTE';
    const perMinute = config[variable] * factor;
    return createRateLimit({ ...rateLimitOptions, name, variable, perMinute });
  };
  await app.register(
    async (api) => {
      const keys = createApiKeyStore({ db });
      guardRoutes(api, config.COLLECTOR_AUTH === 'required' ? keys : undefined);
      const limit = createSourceLimit({
        db,
        perSource: createRateLimit({
          ...rateLimitOptions,
          name: 'ingest',
          perMinute: config.COLLECTOR_INGEST_PER_MINUTE,
          variable: 'COLLECTOR_INGEST_PER_MINUTE',
          what: 'payloads of one source',
        }),
        newSources:
          config.COLLECTOR_NEW_SOURCES_PER_DAY === 0
            ? undefined
            : createRateLimit({
                ...rateLimitOptions,
                name: 'sources',
                perDay: config.COLLECTOR_NEW_SOURCES_PER_DAY,
                variable: 'COLLECTOR_NEW_SOURCES_PER_DAY',
                what: 'new sources for one API key, or one address without a key,',
              }),
      });
      const ingest = createIngest({ db, onAccepted: jobNotifier.send, log });
      registerIngestRoutes(api, { ingest, limit, metrics });
      const leaseMs = config.COLLECTOR_LEASE_SECONDS * 1000;
      await api.register(registerUploadRoutes, {
        processForm: createProcessForm({
          db,
          store: ingest.store,
          run: (job, input) => jobs.run(job, (jobRun) => services.process(job, jobRun, input)),
          leaseMs,
        }),
        limit,
        breaker: model.breaker,
        imageStore,
        disk,
        getTemporaryFolder: temporary.path,
        concurrency: config.COLLECTOR_UPLOADS,
        metrics,
      });
      registerPriceRoute(api, { db });
      registerVerdictRoutes(api, { db });
      registerListingRoutes(api, { db, model, log });
      registerChangeRoutes(api, { db, limit: createSearchLimit('changes') });
      registerImageRoutes(api, images);
      registerSearchRoutes(api, {
        db,
        model,
        dimensions: config.EMBEDDING_DIMENSIONS,
        limits: {
          fulltext: createSearchLimit('fulltext'),
          similar: createSearchLimit('similar'),
          browse: createSearchLimit('browse', BROWSE_LIMIT_FACTOR),
        },
        metrics,
      });
      registerOperationRoutes(api, {
        ...services,
        db,
        keys,
        readQueue,
        onRetried: jobNotifier.send,
      });
    },
    { prefix: '/api/v1' },
  );
  return app;
}
