import { Logger, makeWorkerUtils } from 'graphile-worker';
import pg from 'pg';
import { servePeer } from './peer.ts';
import { serveIngest } from './server.ts';

serveIngest(async ({ databaseUrl, poolSize }) => {
  const utils = await makeWorkerUtils({
    connectionString: databaseUrl,
    maxPoolSize: poolSize,
    logger: new Logger(() => () => undefined),
  });
  await utils.migrate();
  return {
    url: await servePeer((payload) => utils.addJob('process', payload)),
    async countStored() {
      const client = new pg.Client({ connectionString: databaseUrl });
      await client.connect();
      const { rows } = await client.query<{ n: number }>(
        'select count(*)::integer as n from graphile_worker._private_jobs',
      );
      await client.end();
      return rows[0]?.n ?? 0;
    },
  };
});
