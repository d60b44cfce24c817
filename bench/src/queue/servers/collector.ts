import {
  createIngest,
  createJobNotifier,
  createMetrics,
  getMigrateOptions,
  QUEUE_CHANNEL,
  startWorker,
  type Tables,
} from '@oselya/collector/internals';
import { connect, migrate } from '@oselya/db';
import { createLogger } from '@oselya/kit';
import { Registry } from 'prom-client';
import { serveQueue } from './queue.ts';

/** Lease duration. It is shorter than the default, so that the measurement includes renewals. */
const LEASE_MS = 3000;

serveQueue(async ({ databaseUrl, poolSize }) => {
  const database = await connect<Tables>({ url: databaseUrl, maxConnections: poolSize });
  const { db, pool } = database;
  await migrate(database, getMigrateOptions({ EMBEDDING_DIMENSIONS: 16 }));
  const log = createLogger({ level: 'silent', service: 'bench' });
  const jobNotifier = createJobNotifier({ db, onError: fail });
  const ingest = createIngest({ db, onAccepted: jobNotifier.send, log });

  return {
    async fill(count, groups) {
      await pool.query(
        `insert into sources (slug) select 'source-' || n from generate_series(0, $1 - 1) as n
         on conflict do nothing`,
        [groups],
      );
      await pool.query(
        `insert into raw_data (source_slug, external_id, payload, content_hash)
         select 'source-' || n % $2, n::text, jsonb_build_object('n', n), n::text
         from generate_series(1, $1::integer) as n`,
        [count, groups],
      );
    },
    async send(key) {
      await ingest.accept({
        source_slug: 'another-source',
        external_id: key,
        description: 'Квартира',
      });
    },
    async work({ concurrency, onJob }) {
      const worker = startWorker({
        db,
        processJob: (job) => {
          onJob(job.externalId);
          return Promise.resolve({ status: 'completed' });
        },
        breaker: {
          state: 'closed',
          isOpen: false,
          onChange: () => () => undefined,
        },
        metrics: createMetrics(new Registry()),
        log,
        slots: concurrency,
        leaseMs: LEASE_MS,
        maxAttempts: 3,
      });
      await database.listen(QUEUE_CHANNEL, worker.notify);
      return () => worker.stop({ timeoutMs: 10_000 });
    },
    async countRemaining() {
      const { rows } = await pool.query<{ n: number }>(
        `select count(*) as n from raw_data where status <> 'completed'`,
      );
      return rows[0]?.n ?? 0;
    },
  };
});

function fail(error: unknown): never {
  throw error;
}
