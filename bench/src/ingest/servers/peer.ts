import {
  createMetrics,
  guardRoutes,
  type Ingest,
  registerIngestRoutes,
} from '@oselya/collector/internals';
import { createLogger, createServer, listen } from '@oselya/kit';
import { Registry } from 'prom-client';

export type Store = (payload: Parameters<Ingest['accept']>[0]) => Promise<unknown>;

/** Serves the collector's own route, checks included, in front of another store. */
export async function servePeer(store: Store): Promise<string> {
  const log = createLogger({ level: 'silent', service: 'bench' });
  const app = await createServer({
    log,
    bodyLimit: 1024 * 1024,
    openapi: { title: 'A peer', description: 'For comparison.', version: '0' },
  });
  let stored = 0;
  await app.register(
    async (api) => {
      guardRoutes(api, undefined);
      registerIngestRoutes(api, {
        ingest: {
          async accept(payload) {
            await store(payload);
            // The response schema requires a numeric ID, which a peer may not have.
            return {
              id: (stored += 1),
              contentHash: '',
              status: 'pending',
              isNew: true,
              waits: false,
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
