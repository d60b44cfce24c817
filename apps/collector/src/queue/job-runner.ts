import { isDatabaseOutage } from '@oselya/db';
import { type Logger, withLogFields } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { repeat, waitWithTimeout } from '../async/wait.ts';
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

const MAX_HEARTBEAT_MS = 30_000;

/** Short, because a hung connection may already have used half of the lease. */
const HEARTBEAT_RETRY_MS = 1000;

/** Time limit of returning aborted jobs. */
const MAX_ABORT_MS = 1000;

/** @typeParam Input Additional input of the pipeline. Workers pass none. */
export type RunnerOptions<Input = never> = {
  db: Kysely<Tables>;
  process: ProcessJob<Input>;
  metrics: Pick<Metrics, 'jobs'>;
  log: Logger;
  leaseMs: number;
};

type RunningJob = {
  job: Job;
  controller: AbortController;
  stages: StageRecord[];
  cost: ModelCostCounter;
};

/** Runs the jobs of a worker, a request or a command. */
export type JobRunner<Input = never> = ReturnType<typeof createJobRunner<Input>>;

/**
 * Creates a runner of claimed jobs, which renews their leases. An exception of `process` fails the job.
 * Specification 001, Raw data status.
 * @param heartbeat Called three times per lease, and at least every 30 seconds. It must call `renew` first.
 */
export function createJobRunner<Input = never>(
  deps: RunnerOptions<Input>,
  heartbeat: (renew: () => Promise<void>) => Promise<void> = (renew) => renew(),
) {
  const { db, process, metrics, log, leaseMs } = deps;
  const finishJob = createJobFinisher(deps);
  const runningJobs = new Map<RunningJob, Promise<unknown>>();
  const closeController = new AbortController();
  let isClosing = false;

  const toProgress = ({ job, stages, cost }: RunningJob) => ({
    ...job,
    stages,
    modelUsage: cost.getUsage(),
  });

  async function renewJobs(): Promise<void> {
    if (runningJobs.size === 0) return;
    const jobs = [...runningJobs.keys()].map((running) => ({ ...toProgress(running), ...running }));
    for (const { job, controller } of await renewLeases(db, jobs, leaseMs)) {
      controller.abort(new LeaseLostError(job));
    }
  }

  const intervalMs = Math.min(MAX_HEARTBEAT_MS, leaseMs / 3);
  const heartbeatLoop = repeat(intervalMs, () => heartbeat(renewJobs), {
    signal: closeController.signal,
    retryMs: HEARTBEAT_RETRY_MS,
    onError: (error) => log.warn({ err: error }, 'a heartbeat failed'),
  });

  async function runProcess(
    { job, controller: { signal }, stages, cost }: RunningJob,
    input: Input | undefined,
  ): Promise<JobOutcome> {
    try {
      signal.throwIfAborted();
      return await process(job, { signal, stages, cost, input });
    } catch (error) {
      if (signal.aborted || error instanceof LeaseLostError || isDatabaseOutage(error)) throw error;
      log.error({ err: error }, 'a job threw an exception');
      const failure = { code: 'internal_error', message: 'The worker failed; see its log.' };
      return { status: 'failed', error: failure, stages, listingId: null };
    }
  }

  async function settle(
    runningJob: RunningJob,
    input: Input | undefined,
    onProcessed: (() => void) | undefined,
  ): Promise<JobOutcomeStatus> {
    const { job, controller, cost } = runningJob;
    try {
      const result = await runProcess(runningJob, input);
      if (result.status === 'postponed') return await returnJob(runningJob, result);
      onProcessed?.();
      return (await finishJob({ job, result, modelUsage: cost.getUsage() }))
        ? result.status
        : 'lost';
    } catch (error) {
      const reason = controller.signal.reason ?? error;
      log.warn({ err: reason }, 'a job was dropped');
      if (reason instanceof LeaseLostError) return 'lost';
      return returnJob(runningJob, { status: 'returned' }).catch((failure: unknown) => {
        log.warn({ err: failure }, 'a dropped job could not be returned: its lease expires');
        return 'lost';
      });
    }
  }

  async function returnJob<Outcome extends 'postponed' | 'returned'>(
    runningJob: RunningJob,
    result: { status: Outcome; error?: RawError | undefined; retryMs?: number | undefined },
  ): Promise<Outcome | 'lost'> {
    const returnedIds = await returnJobs(db, [{ ...result, ...toProgress(runningJob) }]);
    return returnedIds.has(runningJob.job.rawId) ? result.status : 'lost';
  }

  return {
    /** Number of running jobs. */
    get size() {
      return runningJobs.size;
    },

    /** Returns the raw record IDs of the running jobs. */
    getRawIds: () => [...runningJobs.keys()].map(({ job }) => job.rawId),

    /**
     * Processes a job and stores its outcome. Never rejects: returns `lost` if the claim or the database is lost.
     * @param options.onProcessed Called when only the outcome remains to be stored.
     */
    run(
      job: Job,
      { input, onProcessed }: { input?: Input | undefined; onProcessed?: () => void } = {},
    ): Promise<JobOutcomeStatus> {
      const controller = new AbortController();
      const runningJob = { job, controller, stages: [], cost: createModelCostCounter() };
      if (isClosing) controller.abort(new Error('The process is shutting down'));
      const completion = withLogFields(getJobLogFields(job), async () => {
        const startedAt = performance.now();
        const outcome = await settle(runningJob, input, onProcessed);
        metrics.jobs.inc({ outcome: outcome === 'postponed' ? 'returned' : outcome });
        log.info({ outcome, duration_ms: Math.round(performance.now() - startedAt) }, 'job');
        return outcome;
      }).finally(() => runningJobs.delete(runningJob));
      runningJobs.set(runningJob, completion);
      return completion;
    },

    /** Rejects new jobs, waits at most `timeoutMs` for running jobs, and aborts the remaining ones. */
    async close({ timeoutMs }: { timeoutMs: number }): Promise<void> {
      isClosing = true;
      await waitWithTimeout(Promise.all(runningJobs.values()), timeoutMs);
      for (const { controller } of runningJobs.keys()) {
        controller.abort(new Error('The process is shutting down'));
      }
      closeController.abort();
      await waitWithTimeout(Promise.all([...runningJobs.values(), heartbeatLoop]), MAX_ABORT_MS);
    },
  };
}
