import { after } from 'node:test';
import { createServer } from '@oselya/kit';
import { Registry } from 'prom-client';
import type { ApiKeys } from '../../../src/access/api-keys.ts';
import { guardRoutes } from '../../../src/access/guard.ts';
import { createDisk } from '../../../src/disk.ts';
import { withImagesRoutes, type WithImagesDeps } from '../../../src/ingest/with-images.ts';
import { MEBIBYTE } from '../../../src/schemas.ts';
import { createMetrics } from '../../../src/metrics.ts';
import { PayloadSchema } from '../../../src/ingest/payload.ts';
import { fakeBreaker } from '../../support/breaker.ts';
import { log } from '../../support/pipeline.ts';

type Options = Pick<WithImagesDeps, 'processForm' | 'atOnce' | 'maxBytes'> & {
  folder: string;
  keys?: Pick<ApiKeys, 'verify'>;
};

/** A server with the route alone, without a database; gives its address. */
export async function startRoutes({ folder, keys, ...deps }: Options): Promise<string> {
  const app = await createServer({
    log,
    bodyLimit: MEBIBYTE,
    openapi: { title: 'Test', description: 'A test.', version: '1' },
  });
  guardRoutes(app, keys);
  app.addSchema(PayloadSchema);
  await app.register(withImagesRoutes, {
    limit: async () => ({}),
    breaker: fakeBreaker(),
    imageStore: { isAway: false },
    disk: createDisk({ folder, minFreeMb: 0 }),
    temporary: () => folder,
    metrics: createMetrics(new Registry()),
    ...deps,
  });
  after(() => app.close());
  return app.listen({ port: 0 });
}
