import { isDatabaseOutage } from '@oselya/db';
import { type Logger, withLogFields } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { inTime } from '../async/wait.ts';
import type { StageRecord, Tables } from '../tables.ts';
import type { Metrics } from '../metrics.ts';
import { createModelCost, type ModelCost } from '../model.ts';
import {
  type Job,
  type JobOutcome,
  LeaseLostError,
  logFieldsOf,
  type ProcessJob,
  type ProcessResult,
  ReturnedError,
} from './job.ts';
import { createFinish, renewLeases, type Returning, returnJobs } from './jobs.ts';

/** A job that this process has claimed and whose end is not written. */
type Running = {
  job: Job;
  controller: AbortController;
  stages: StageRecord[];
  cost: ModelCost;
  done: Promise<unknown>;
};

/** Runs claimed jobs, and keeps their leases. */
export type JobRunner<Input> = {
  /** How many have not ended. */
  readonly size: number;
  /** The ids of these. */
  ids(): number[];
  /**
   * Does a job's work and writes the one status that it came to. It never rejects: a job that loses its claim or its
   * database is dropped.
   * @param options.signal Aborts the job.
   * @param options.onProcessed Called when only the end is left to be written.
   */
  run(
    job: Job,
    options?: { input?: Input | undefined; signal?: AbortSignal; onProcessed?: () => void },
  ): Promise<JobOutcome>;
  /** Renews the leases of all jobs, and aborts those whose leases were lost. */
  renew(): Promise<void>;
  /** Waits until all jobs have ended, at most `timeoutMs`. Resolves to whether they have. */
  ended(timeoutMs: number): Promise<boolean>;
  /** Returns the jobs in progress to the queue. Resolves to the ids of those that went back. */
  giveBack(): Promise<ReadonlySet<number>>;
  /** Aborts all jobs, for the reason that `reasonOf` gives. */
  abort(reasonOf: (job: Job) => Error): void;
};

/** Creates a runner. An exception of `process` fails the job. Specification 001, Raw data status. */
export function createJobRunner<Input = never>(deps: {
  db: Kysely<Tables>;
  process: ProcessJob<Input>;
  metrics: Pick<Metrics, 'jobs'>;
  log: Logger;
  leaseMs: number;
}): JobRunner<Input> {
  const { db, process, metrics, log, leaseMs } = deps;
  const finish = createFinish(deps);
  const running = new Set<Running>();

  async function processed(
    { job, controller: { signal }, stages, cost }: Omit<Running, 'done'>,
    input: Input | undefined,
  ): Promise<ProcessResult> {
    try {
      return await process(job, { signal, stages, cost, input });
    } catch (error) {
      if (signal.aborted || error instanceof LeaseLostError || isDatabaseOutage(error)) throw error;
      log.error({ err: error }, 'a job threw an exception');
      const message = 'The worker failed; its log has more.';
      return {
        status: 'failed',
        error: { code: 'internal_error', message },
        stages,
        listingId: null,
      };
    }
  }

  async function settle(
    entry: Omit<Running, 'done'>,
    { input, onProcessed }: { input?: Input | undefined; onProcessed?: (() => void) | undefined },
  ): Promise<JobOutcome> {
    const { job, controller, stages, cost } = entry;
    try {
      const result = await processed(entry, input);
      const modelUsage = cost.usage();
      if (result.status === 'postponed') {
        const back = await returnJobs(db, [{ ...job, stages, modelUsage, ...result }]);
        return back.has(job.rawId) ? 'postponed' : 'lost';
      }
      onProcessed?.();
      if (await finish({ job, result, modelUsage })) return result.status;
    } catch (error) {
      log.warn({ err: controller.signal.reason ?? error }, 'a job was dropped');
      return drop(entry);
    }
    return 'lost';
  }

  /** Tries once to return a dropped job; otherwise its lease expires. */
  async function drop(entry: Omit<Running, 'done'>): Promise<JobOutcome> {
    const { job, controller } = entry;
    const { reason } = controller.signal;
    if (reason instanceof ReturnedError) return 'returned';
    if (reason instanceof LeaseLostError) return 'lost';
    try {
      return (await returnJobs(db, [returning(entry)])).has(job.rawId) ? 'returned' : 'lost';
    } catch (error) {
      log.warn({ err: error }, 'a dropped job could not be returned');
      return 'lost';
    }
  }

  const returning = ({ job, stages, cost }: Omit<Running, 'done'>): Returning => ({
    ...job,
    stages,
    modelUsage: cost.usage(),
  });

  return {
    get size() {
      return running.size;
    },
    ids: () => [...running].map(({ job }) => job.rawId),
    run(job, { input, signal, onProcessed } = {}) {
      const entry = { job, controller: new AbortController(), stages: [], cost: createModelCost() };
      const abort = () => entry.controller.abort(signal?.reason);
      signal?.addEventListener('abort', abort);
      const done = withLogFields(logFieldsOf(job), async () => {
        const startedAt = performance.now();
        const outcome = await settle(entry, { input, onProcessed });
        metrics.jobs.inc({ outcome: outcome === 'postponed' ? 'returned' : outcome });
        log.info({ outcome, duration_ms: Math.round(performance.now() - startedAt) }, 'job');
        return outcome;
      }).finally(() => {
        signal?.removeEventListener('abort', abort);
        running.delete(inProgress);
      });
      const inProgress = { ...entry, done };
      running.add(inProgress);
      return done;
    },
    async renew() {
      if (running.size === 0) return;
      const current = [...running];
      const jobs = current.map((entry) => ({
        ...entry.job,
        ...entry,
        modelUsage: entry.cost.usage(),
      }));
      const held = await renewLeases(db, jobs, leaseMs);
      const ids = new Set(held.map(({ rawId, attempt }) => `${rawId}/${attempt}`));
      for (const { job, controller } of current) {
        if (!ids.has(`${job.rawId}/${job.attempt}`)) controller.abort(new LeaseLostError(job));
      }
    },
    async ended(timeoutMs) {
      await inTime(Promise.all([...running].map(({ done }) => done)), timeoutMs);
      return running.size === 0;
    },
    giveBack: () => returnJobs(db, [...running].map(returning)),
    abort(reasonOf) {
      for (const { job, controller } of running) controller.abort(reasonOf(job));
    },
  };
}
