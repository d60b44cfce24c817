import pg from 'pg';
import { PgBoss } from 'pg-boss';
import { serveQueue } from './queue.ts';

const QUEUE = 'nothing';
const BATCH_SIZE = 5000;

// Fastest settings: notifications wake the worker, and full batches follow each other without a pause. The batch size
// equals the concurrency.
serveQueue(async ({ databaseUrl, poolSize }) => {
  const boss = new PgBoss({ connectionString: databaseUrl, max: poolSize, useListenNotify: true });
  boss.on('error', (error) => {
    throw error;
  });
  await boss.start();
  await boss.createQueue(QUEUE, { notify: true });
  return {
    async fill(count) {
      for (let first = 1; first <= count; first += BATCH_SIZE) {
        const size = Math.min(BATCH_SIZE, count - first + 1);
        const jobs = Array.from({ length: size }, (_, index) => ({
          data: { key: String(first + index) },
        }));
        await boss.insert(QUEUE, jobs);
      }
    },
    async send(key) {
      await boss.send(QUEUE, { key });
    },
    async work({ concurrency, onJob }) {
      const options = { batchSize: concurrency, burstWhenBatchFull: true };
      await boss.work<{ key: string }>(QUEUE, options, (jobs) => {
        for (const { data } of jobs) onJob(data.key);
        return Promise.resolve();
      });
      return () => boss.offWork(QUEUE);
    },
    async countRemaining() {
      const client = new pg.Client({ connectionString: databaseUrl });
      await client.connect();
      const { rows } = await client.query<{ n: number }>(
        `select count(*)::integer as n from pgboss.job where name = $1 and state < 'completed'`,
        [QUEUE],
      );
      await client.end();
      return rows[0]?.n ?? 0;
    },
  };
});
