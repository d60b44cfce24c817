import { createHash } from 'node:crypto';
import pg from 'pg';
import type { Payload } from '../listings/payload.ts';
import { type JobFigures, readFigures } from './figures.ts';

/** The queue of one database, as the benchmark fills and reads it. */
export type Jobs = AsyncDisposable & {
  put(payloads: readonly Payload[]): Promise<void>;
  /** Waits until no jobs are left. */
  waitUntilDrained(signal: AbortSignal): Promise<void>;
  /** Figures of the last jobs. */
  figures(count: number, slots: number): Promise<JobFigures>;
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
        const { rows } = await client.query<{ left: boolean }>(
          `select exists (select from raw_data where status in ('pending', 'processing')) as left`,
        );
        if (rows[0]?.left !== true) return;
        signal.throwIfAborted();
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
    },

    figures: (count, slots) => readFigures(client, count, slots),

    [Symbol.asyncDispose]: () => client.end(),
  };
}

/** Hashes a payload; the pipeline requires only that equal payloads have equal hashes. */
function hashPayload(payload: Payload): string {
  return createHash('sha256').update(JSON.stringify(payload)).digest('hex');
}
