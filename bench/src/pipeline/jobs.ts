import { createHash } from 'node:crypto';
import pg from 'pg';
import type { Payload } from '../listings/payload.ts';

/** What a worker made of the payloads that were put into its queue. */
export type JobFigures = {
  completed: number;
  /** Those that did not end `completed`. */
  others: number;
  /** From the first job's beginning to the last one's end. */
  seconds: number;
  /**
   * How much of the slots' time was spent on jobs, from the first job's beginning to the last one's:
   * so long there was work for every slot.
   */
  busy: number;
  /** Requests to the model, as the raw records have them. */
  calls: number;
};

/** The queue of one database, as the benchmark fills and reads it. */
export type Jobs = AsyncDisposable & {
  put(payloads: readonly Payload[]): Promise<void>;
  /** Waits until nothing is left to do. */
  drained(signal: AbortSignal): Promise<void>;
  /** Figures of the last so many jobs. */
  figures(count: number, slots: number): Promise<JobFigures>;
};

const POLL_MS = 50;

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
        [JSON.stringify(payloads.map((payload) => ({ payload, hash: hashOf(payload) })))],
      );
      await client.query('commit');
    },

    async drained(signal) {
      for (;;) {
        const { rows } = await client.query<{ left: boolean }>(
          `select exists (select from raw_data where status in ('pending', 'processing')) as left`,
        );
        if (rows[0]?.left !== true) return;
        signal.throwIfAborted();
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
    },

    async figures(count, slots) {
      const { rows } = await client.query<JobFigures>(
        `with job as (
           select status, updated_at as ended_at, model_usage,
             (stages -> 0 ->> 'started_at')::timestamptz as started_at
           from raw_data order by id desc limit $1),
         run as (
           select min(started_at) as started_at, max(started_at) as last_started_at,
             max(ended_at) as ended_at
           from job)
         select count(*) filter (where status = 'completed')::int as completed,
           count(*) filter (where status <> 'completed')::int as others,
           extract(epoch from max(run.ended_at) - min(run.started_at))::float8 as seconds,
           sum(extract(epoch from least(job.ended_at, run.last_started_at) - job.started_at))::float8
             / ($2 * extract(epoch from max(run.last_started_at) - min(run.started_at)))::float8 as busy,
           sum((model_usage ->> 'calls')::int)::int as calls
         from job, run`,
        [count, slots],
      );
      const [figures] = rows;
      if (figures === undefined) throw new Error('An aggregate gave no row');
      return figures;
    },

    [Symbol.asyncDispose]: () => client.end(),
  };
}

/** Equal payloads have equal hashes, which is all that the pipeline asks of them. */
function hashOf(payload: Payload): string {
  return createHash('sha256').update(JSON.stringify(payload)).digest('hex');
}
