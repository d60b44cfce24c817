import pg from 'pg';
import { PgBoss } from 'pg-boss';
import { servePeer } from './peer.ts';
import { serveIngest } from './server.ts';

const QUEUE = 'process';

serveIngest(async ({ databaseUrl, poolSize }) => {
  const boss = new PgBoss({ connectionString: databaseUrl, max: poolSize });
  await boss.start();
  await boss.createQueue(QUEUE);
  return {
    url: await servePeer((payload) => boss.send(QUEUE, payload)),
    async countStored() {
      const client = new pg.Client({ connectionString: databaseUrl });
      await client.connect();
      const { rows } = await client.query<{ n: number }>(
        'select count(*)::integer as n from pgboss.job where name = $1',
        [QUEUE],
      );
      await client.end();
      return rows[0]?.n ?? 0;
    },
  };
});
