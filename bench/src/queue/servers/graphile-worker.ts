import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import pg from 'pg';
import { serveQueue } from './queue.ts';

const TASK = 'nothing';
const BATCH_SIZE = 10_000;
const logger = new Logger(() => () => undefined);

serveQueue(async ({ databaseUrl, poolSize, batching }) => {
  const shared = { connectionString: databaseUrl, maxPoolSize: poolSize, logger };
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 1 });
  const utils = await makeWorkerUtils(shared);
  await utils.migrate();
  return {
    async fill(count) {
      for (let first = 1; first <= count; first += BATCH_SIZE) {
        await pool.query(
          `select graphile_worker.add_jobs(array_agg(json_populate_record(
               null::graphile_worker.job_spec,
               json_build_object('identifier', $1::text, 'payload', json_build_object('key', n)))))
             from generate_series($2::integer, $3::integer) as n`,
          [TASK, first, Math.min(count, first + BATCH_SIZE - 1)],
        );
      }
    },
    async send(key) {
      await utils.addJob(TASK, { key });
    },
    async work({ concurrency, onJob }) {
      const runner = await run({
        ...shared,
        concurrency,
        noHandleSignals: true,
        parsedCronItems: [],
        taskList: { [TASK]: (payload) => onJob(String((payload as { key: unknown }).key)) },
        ...(batching && {
          preset: {
            worker: {
              localQueue: { size: batching.localQueueSize },
              completeJobBatchDelay: batching.completeJobBatchDelayMs,
            },
          },
        }),
      });
      return () => runner.stop();
    },
    async countRemaining() {
      const { rows } = await pool.query<{ n: number }>(
        'select count(*)::integer as n from graphile_worker._private_jobs',
      );
      return rows[0]?.n ?? 0;
    },
  };
});
