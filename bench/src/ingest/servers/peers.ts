import {
  createMetrics,
  guardRoutes,
  type Ingest,
  registerIngestRoutes,
} from '@oselya/collector/internals';
import { createLogger, createServer, listen } from '@oselya/kit';
import { Logger, makeWorkerUtils } from 'graphile-worker';
import { PgBoss } from 'pg-boss';
import { Registry } from 'prom-client';
import { countRows, type MeasuredServer, serveIngest, type Settings } from './server.ts';

type Store = (payload: Parameters<Ingest['accept']>[0]) => Promise<unknown>;

const QUEUE = 'process';

serveIngest((settings) =>
  settings.peer === 'pg-boss' ? startPgBoss(settings) : startGraphileWorker(settings),
);

async function startGraphileWorker({ databaseUrl, poolSize }: Settings): Promise<MeasuredServer> {
  const utils = await makeWorkerUtils({
    connectionString: databaseUrl,
    maxPoolSize: poolSize,
    logger: new Logger(() => () => undefined),
  });
  await utils.migrate();
  return {
    url: await servePeer((payload) => utils.addJob(QUEUE, payload)),
    countStored: () => countRows(databaseUrl, 'graphile_worker._private_jobs'),
  };
}

async function startPgBoss({ databaseUrl, poolSize }: Settings): Promise<MeasuredServer> {
  const boss = new PgBoss({ connectionString: databaseUrl, max: poolSize });
  await boss.start();
  await boss.createQueue(QUEUE);
  return {
    url: await servePeer((payload) => boss.send(QUEUE, payload)),
    countStored: () => countRows(databaseUrl, `pgboss.job where name = '${QUEUE}'`),
  };
}

/** Serves the collector's ingest route, including its validation, and stores payloads in a peer's queue. */
async function servePeer(store: Store): Promise<string> {
  const log = createLogger({ level: 'silent', service: 'bench' });
  const app = await createServer({
    log,
    bodyLimit: 1024 * 1024,
    openapi: { title: 'A peer', description: 'For comparison.', version: '0' },
  });
  let storedCount = 0;
  await app.register(
    async (api) => {
      guardRoutes(api, undefined);
      registerIngestRoutes(api, {
        ingest: {
          async accept(payload) {
            await store(payload);
            // The response schema requires a numeric ID, which not every peer returns.
            return {
              id: (storedCount += 1),
              contentHash: '',
              status: 'pending',
              isNew: true,
              isBlocked: false,
            };
          },
          find: () => Promise.resolve(undefined),
        },
        limit: () => Promise.resolve({}),
        metrics: createMetrics(new Registry()),
      });
    },
    { prefix: '/api/v1' },
  );
  return listen(app, { host: '127.0.0.1', port: 0, variable: 'PORT' });
}
