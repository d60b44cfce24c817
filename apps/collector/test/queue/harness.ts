import { afterEach } from 'node:test';
import { type Kysely, sql } from 'kysely';
import { Registry } from 'prom-client';
import type { StageRecord, Tables } from '../../src/tables.ts';
import { createMetrics, type Metrics } from '../../src/metrics.ts';
import type { Job, JobOutcome, JobRun } from '../../src/queue/job-types.ts';
import { startWorker, type Worker, type WorkerOptions } from '../../src/queue/worker.ts';
import { until } from '@oselya/testing';
import {
  countByStatus,
  createFakeBreaker,
  openDatabase,
  store,
  createPayload,
  log,
} from '../support/pipeline.ts';

export const stage: StageRecord = {
  stage: 'load',
  outcome: 'done',
  started_at: '2026-05-04T09:00:00.000Z',
  duration_ms: 3,
};

/** End of a completed job without stages or model requests. */
export const completedEnd = {
  status: 'completed',
  stages: [],
  modelUsage: { calls: 0, input_tokens: 0, output_tokens: 0 },
} as const;

export const completedOutcome: JobOutcome = { status: 'completed' };

/** Reads the number of ended claims by outcome. */
export async function countOutcomes(
  metrics: Pick<Metrics, 'jobs'>,
): Promise<Record<string, number>> {
  const { values } = await metrics.jobs.get();
  return Object.fromEntries(values.map(({ labels, value }) => [String(labels['outcome']), value]));
}

export const NO_WAIT = { timeoutMs: 0 };
export const LONG_TIMEOUT = { timeoutMs: 20_000 };

/** Stores pending payloads of a source without `POST /ingest`. */
export async function storePending(
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

/** Creates a job processor. A job runs until the test ends it, or ends all jobs, including later ones. */
export function createHeldJobs() {
  const startedJobs: (Job & { end: () => void })[] = [];
  let areHeld = true;
  return {
    startedJobs,
    endAll: (): void => {
      areHeld = false;
      for (const { end } of startedJobs) end();
    },
    processJob: async (job: Job): Promise<JobOutcome> => {
      const { promise, resolve: end } = Promise.withResolvers<void>();
      startedJobs.push({ ...job, end });
      if (areHeld) await promise;
      return completedOutcome;
    },
  };
}

/** Opens a queue for a test file. Its workers have four slots by default. */
export async function openQueue() {
  const { db } = await openDatabase();
  const workers: Worker[] = [];
  // A failed test must not leave a running worker.
  afterEach(async () => {
    await Promise.all(workers.splice(0).map((worker) => worker.stop(NO_WAIT)));
  });

  function start(
    processJob: (job: Job, run: JobRun) => Promise<JobOutcome>,
    options: Partial<Omit<WorkerOptions, 'processJob'>> = {},
  ): Worker {
    const worker = startWorker({
      db,
      processJob,
      breaker: createFakeBreaker(),
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

  return {
    db,
    start,
    /** Waits until each status has the expected number of payloads. */
    waitForStatuses: (expectedCounts: Record<string, number>) =>
      until(JSON.stringify(expectedCounts), async () => {
        const counts: Record<string, number> = await countByStatus(db);
        return Object.entries(expectedCounts).every(([status, count]) => counts[status] === count);
      }),
    deletePayloads: () => db.deleteFrom('raw_data').execute(),
    storePayloads: (count: number) =>
      Promise.all(Array.from({ length: count }, () => store(db, createPayload()))),
  };
}
