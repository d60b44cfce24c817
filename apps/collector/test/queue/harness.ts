import { afterEach } from 'node:test';
import { createLogger } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import { Registry } from 'prom-client';
import type { Tables } from '../../src/tables.ts';
import { createMetrics, type Metrics } from '../../src/metrics.ts';
import type { Job, JobResult } from '../../src/queue/job.ts';
import type { JobOptions, ProcessResult } from '../../src/queue/job.ts';
import { startWorker, type Worker, type WorkerOptions } from '../../src/queue/worker.ts';
import { until } from '@oselya/testing';
import { fakeBreaker, openDatabase, store, payloadOf, log } from '../support/pipeline.ts';

export const completed: JobResult = {
  status: 'completed',
  error: null,
  stages: [],
  listingId: null,
};

/** How often a worker's claims have ended in each way. */
export async function countOutcomes(
  metrics: Pick<Metrics, 'jobs'>,
): Promise<Record<string, number>> {
  const { values } = await metrics.jobs.get();
  return Object.fromEntries(values.map(({ labels, value }) => [String(labels['outcome']), value]));
}

export const NO_WAIT = { timeoutMs: 0 };
export const LONG = { timeoutMs: 20_000 };

/** A line of the log. */
export type Line = {
  msg: string;
  raw_id?: number;
  request_id?: string;
  source?: string;
  attempt?: number;
};

/** A log that is kept. */
export const logTo = (lines: Line[]) =>
  createLogger({
    level: 'info',
    service: 'test',
    destination: { write: (line) => lines.push(JSON.parse(line) as Line) },
  });

/** Pending payloads of a source, past everything that an ingest does. */
export async function fill(
  db: Kysely<Tables>,
  source: string,
  count: number,
  { sameListing = false } = {},
): Promise<void> {
  await sql`insert into sources (slug) values (${source}) on conflict do nothing`.execute(db);
  await sql`insert into raw_data (source_slug, external_id, payload, content_hash, waits)
    select ${source}, case when ${sameListing} then 'same' else n::text end, '{}', '',
      ${sameListing} and n > 1
    from generate_series(1, ${count}::integer) as n`.execute(db);
}

/** Jobs that take until a test ends them, each by itself or all, those that come after it included. */
export function heldJobs() {
  const begun: (Job & { end: () => void })[] = [];
  let areHeld = true;
  return {
    begun,
    ofSource: (source: string) => begun.filter(({ sourceSlug }) => sourceSlug === source),
    endAll: (): void => {
      areHeld = false;
      for (const { end } of begun) end();
    },
    process: async (job: Job): Promise<ProcessResult> => {
      const { promise, resolve: end } = Promise.withResolvers<void>();
      begun.push({ ...job, end });
      if (areHeld) await promise;
      return completed;
    },
  };
}

/** A queue for one test file, and workers of four slots on it, which do what a test says. */
export async function openQueue() {
  const { db, isExclusive } = await openDatabase();
  const workers: Worker[] = [];
  // A test that failed must not leave a worker at work on the next one.
  afterEach(async () => {
    await Promise.all(workers.splice(0).map((worker) => worker.stop(NO_WAIT)));
  });

  function start(
    process: (job: Job, options: JobOptions) => Promise<ProcessResult>,
    options: Partial<Omit<WorkerOptions, 'process'>> = {},
  ): Worker {
    const worker = startWorker({
      db,
      process,
      breaker: fakeBreaker(),
      metrics: createMetrics(new Registry()),
      log,
      slots: 4,
      leaseMs: 60_000,
      maxAttempts: 3,
      pollMs: 20,
      ...options,
    });
    workers.push(worker);
    return worker;
  }

  async function statuses(): Promise<Record<string, number>> {
    const rows = await db
      .selectFrom('raw_data')
      .select(['status', (eb) => eb.fn.countAll<number>().as('count')])
      .groupBy('status')
      .execute();
    return Object.fromEntries(rows.map((row) => [row.status, row.count]));
  }

  return {
    db,
    isExclusive,
    start,
    statuses,
    /** Waits until there are so many payloads of each of these statuses. */
    reach: (wanted: Record<string, number>) =>
      until(JSON.stringify(wanted), async () => {
        const found = await statuses();
        return Object.entries(wanted).every(([status, count]) => found[status] === count);
      }),
    empty: () => db.deleteFrom('raw_data').execute(),
    storeMany: (count: number) =>
      Promise.all(Array.from({ length: count }, () => store(db, payloadOf()))),
  };
}
