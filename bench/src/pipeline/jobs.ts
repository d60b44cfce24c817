import { createHash } from 'node:crypto';
import pg from 'pg';
import type { Payload } from '../listings/listing.ts';

/** Job queue of one database. */
export type Jobs = AsyncDisposable & {
  put(payloads: readonly Payload[]): Promise<void>;
  /**
   * Waits until all jobs have ended.
   * @throws The reason of `signal` if it aborts.
   */
  waitUntilDrained(signal: AbortSignal): Promise<void>;
  /** Returns the results of the last `count` jobs. */
  readResults(count: number, slots: number): Promise<JobResults>;
};

const POLL_MS = 50;

/** Opens the job queue of a database. */
export async function openJobs(databaseUrl: string): Promise<Jobs> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  return {
    async put(payloads) {
      await client.query('begin');
      await client.query(
        `insert into sources (slug) select distinct p ->> 'source_slug' from jsonb_array_elements($1) as p
         on conflict do nothing`,
        [JSON.stringify(payloads)],
      );
      await client.query(
        `insert into raw_data (source_slug, external_id, payload, content_hash)
         select p.payload ->> 'source_slug', p.payload ->> 'external_id', p.payload, p.hash
         from jsonb_to_recordset($1) as p (payload jsonb, hash text)`,
        [JSON.stringify(payloads.map((payload) => ({ payload, hash: hashPayload(payload) })))],
      );
      await client.query('commit');
    },

    async waitUntilDrained(signal) {
      for (;;) {
        const { rows } = await client.query<{ hasOpenJobs: boolean }>(
          `select exists (select from raw_data where status in ('pending', 'processing')) as "hasOpenJobs"`,
        );
        if (rows[0]?.hasOpenJobs !== true) return;
        signal.throwIfAborted();
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
    },

    readResults: (count, slots) => readJobResults(client, count, slots),

    [Symbol.asyncDispose]: () => client.end(),
  };
}

/** Hashes a payload. The pipeline requires only that identical payloads have the same hash. */
function hashPayload(payload: Payload): string {
  return createHash('sha256').update(JSON.stringify(payload)).digest('hex');
}

/** Results of a batch of jobs. */
export type JobResults = {
  /** Number of jobs with the status `completed`. */
  completedCount: number;
  /** Number of jobs with a status other than `completed`. */
  incompleteCount: number;
  /** Time from the start of the first job to the database update of the last. */
  seconds: number;
  /**
   * Share of the slots' time spent on jobs, from the start of the first job to the start of the last. During this time,
   * every slot had work.
   */
  busy: number;
  /** Number of model requests recorded in the raw records. */
  calls: number;
};

/**
 * Returns the results of the last `count` jobs. A job occupies its slot from the start of its first stage to the end of
 * its last stage. The time to store its result does not count.
 * @param slots Number of slots of the worker.
 */
export async function readJobResults(
  client: pg.ClientBase,
  count: number,
  slots: number,
): Promise<JobResults> {
  const { rows } = await client.query<JobResults>(
    `with job as (
       select status, updated_at, model_usage,
         (stages -> 0 ->> 'started_at')::timestamptz as started_at,
         (stages -> -1 ->> 'started_at')::timestamptz
           + (stages -> -1 ->> 'duration_ms')::float8 * interval '1 millisecond' as left_at
       from raw_data order by id desc limit $1),
     run as (
       select min(started_at) as started_at, max(started_at) as last_started_at,
         max(updated_at) as ended_at
       from job)
     select count(*) filter (where status = 'completed')::int as "completedCount",
       count(*) filter (where status <> 'completed')::int as "incompleteCount",
       extract(epoch from max(run.ended_at) - min(run.started_at))::float8 as seconds,
       sum(extract(epoch from least(job.left_at, run.last_started_at) - job.started_at))::float8
         / ($2 * extract(epoch from max(run.last_started_at) - min(run.started_at)))::float8 as busy,
       sum((model_usage ->> 'calls')::int)::int as calls
     from job, run`,
    [count, slots],
  );
  const [results] = rows;
  if (results === undefined) throw new Error('An aggregate query returned no row');
  return results;
}
