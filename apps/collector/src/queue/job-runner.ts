import { isDatabaseOutage } from '@oselya/db';
import { type Logger, withLogFields } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { settlesWithin } from '../async/wait.ts';
import type { RawError, StageRecord, Tables } from '../tables.ts';
import type { Metrics } from '../metrics.ts';
import { createModelCostCounter, type ModelCostCounter } from '../model.ts';
import {
  type Job,
  type JobOutcomeStatus,
  LeaseLostError,
  getJobLogFields,
  type ProcessJob,
  type JobOutcome,
} from './job-types.ts';
import { createJobFinisher, renewLeases, returnJobs } from './job-writes.ts';

/** A job that this process has claimed and whose result is not stored yet. */
type RunningJob = {
  job: Job;
  controller: AbortController;
  stages: StageRecord[];
  cost: ModelCostCounter;
};

/** @typeParam Input Passed on to the pipeline; a worker passes none. */
export type RunnerOptions<Input = never> = {
  db: Kysely<Tables>;
  process: ProcessJob<Input>;
  metrics: Pick<Metrics, 'jobs'>;
  log: Logger;
  leaseMs: number;
};

/** Runs claimed jobs, and renews their leases. */
export type JobRunner<Input> = {
  /** Number of running jobs. */
  readonly size: number;
  /** Returns the raw record IDs of the running jobs. */
  ids(): number[];
  /**
   * Processes a job and stores its outcome. Never rejects: returns `lost` if the claim or the database is lost.
   * @param options.signal Aborts the job.
   * @param options.onProcessed Called when only the outcome remains to be stored.
   */
  run(
    job: Job,
    options?: { input?: Input | undefined; signal?: AbortSignal; onProcessed?: () => void },
  ): Promise<JobOutcomeStatus>;
  /** Renews the leases of all jobs, and aborts those whose leases were lost. */
  renew(): Promise<void>;
  /** Waits at most `timeoutMs` for running jobs, then aborts the rest and waits for the remaining time. */
  end(timeoutMs: number, leftMs: () => number): Promise<void>;
};

/** Creates a runner. An exception of `process` fails the job. Specification 001, Raw data status. */
export function createJobRunner<Input = never>(deps: RunnerOptions<Input>): JobRunner<Input> {
  const { db, process, metrics, log, leaseMs } = deps;
  const finish = createJobFinisher(deps);
  const running = new Map<RunningJob, Promise<unknown>>();

  async function runProcess(
    { job, controller: { signal }, stages, cost }: RunningJob,
    input: Input | undefined,
  ): Promise<JobOutcome> {
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
    entry: RunningJob,
    { input, onProcessed }: { input?: Input | undefined; onProcessed?: (() => void) | undefined },
  ): Promise<JobOutcomeStatus> {
    const { job, controller, cost } = entry;
    try {
      const result = await runProcess(entry, input);
      if (result.status === 'postponed') return await putBack(entry, result);
      onProcessed?.();
      return (await finish({ job, result, modelUsage: cost.usage() })) ? result.status : 'lost';
    } catch (error) {
      const reason = controller.signal.reason ?? error;
      log.warn({ err: reason }, 'a job was dropped');
      if (reason instanceof LeaseLostError) return 'lost';
      return putBack(entry, { status: 'returned' }).catch((failure: unknown) => {
        log.warn({ err: failure }, 'a dropped job could not be returned: its lease expires');
        return 'lost';
      });
    }
  }

  /** Returns a job to the queue at no cost. */
  async function putBack<Outcome extends 'postponed' | 'returned'>(
    { job, stages, cost }: RunningJob,
    why: { status: Outcome; error?: RawError | undefined; retryMs?: number | undefined },
  ): Promise<Outcome | 'lost'> {
    const back = await returnJobs(db, [{ ...job, ...why, stages, modelUsage: cost.usage() }]);
    return back.has(job.rawId) ? why.status : 'lost';
  }

  async function waitForAll(timeoutMs: number): Promise<boolean> {
    await settlesWithin(Promise.all(running.values()), timeoutMs);
    return running.size === 0;
  }

  return {
    get size() {
      return running.size;
    },
    ids: () => [...running.keys()].map(({ job }) => job.rawId),
    run(job, { input, signal, onProcessed } = {}) {
      const entry = {
        job,
        controller: new AbortController(),
        stages: [],
        cost: createModelCostCounter(),
      };
      const abort = () => entry.controller.abort(signal?.reason);
      signal?.addEventListener('abort', abort);
      const done = withLogFields(getJobLogFields(job), async () => {
        const startedAt = performance.now();
        const outcome = await settle(entry, { input, onProcessed });
        metrics.jobs.inc({ outcome: outcome === 'postponed' ? 'returned' : outcome });
        log.info({ outcome, duration_ms: Math.round(performance.now() - startedAt) }, 'job');
        return outcome;
      }).finally(() => {
        signal?.removeEventListener('abort', abort);
        running.delete(entry);
      });
      running.set(entry, done);
      return done;
    },
    async renew() {
      if (running.size === 0) return;
      const current = [...running.keys()];
      const jobs = current.map(({ job, stages, cost }) => ({
        ...job,
        stages,
        modelUsage: cost.usage(),
      }));
      const held = await renewLeases(db, jobs, leaseMs);
      const ids = new Set(held.map(({ rawId, attempt }) => `${rawId}/${attempt}`));
      for (const { job, controller } of current) {
        if (!ids.has(`${job.rawId}/${job.attempt}`)) controller.abort(new LeaseLostError(job));
      }
    },
    async end(timeoutMs, leftMs) {
      if (await waitForAll(timeoutMs)) return;
      for (const { controller } of running.keys()) {
        controller.abort(new Error('The process is shutting down'));
      }
      await waitForAll(leftMs());
    },
  };
}
