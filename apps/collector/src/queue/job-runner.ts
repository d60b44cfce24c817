import { isDatabaseOutage, LeaseLostError } from '@oselya/db';
import { type Logger, withLogFields } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { repeat, waitWithTimeout } from '../async/wait.ts';
import type { StageRecord, Tables } from '../tables.ts';
import type { Metrics } from '../metrics.ts';
import { createModelUsageCounter, type ModelUsageCounter } from '../model.ts';
import {
  type ClaimResult,
  type Job,
  type JobHandler,
  type JobOutcome,
  getJobLogFields,
} from './job-types.ts';
import { createJobEnder, renewLeases } from './job-writes.ts';

const MAX_HEARTBEAT_INTERVAL_MS = 30_000;

/** Delay after a failed renewal. It is short, because a hung connection may already have used half of the lease. */
const HEARTBEAT_RETRY_DELAY_MS = 1000;

/** Time limit for requeuing aborted jobs. */
const ABORT_TIMEOUT_MS = 1000;

export type RunnerOptions = {
  db: Kysely<Tables>;
  metrics: Pick<Metrics, 'jobs'>;
  log: Logger;
  leaseMs: number;
};

type RunningJob = {
  job: Job;
  controller: AbortController;
  stages: StageRecord[];
  usage: ModelUsageCounter;
};

/** Runner of the jobs of a worker, a request or a command. */
export type JobRunner = ReturnType<typeof createJobRunner>;

/** Runs work three times per lease or every 30 seconds, whichever is more frequent, until the signal aborts. */
export function repeatPerLease(
  { leaseMs, log }: RunnerOptions,
  work: () => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  return repeat(Math.min(MAX_HEARTBEAT_INTERVAL_MS, leaseMs / 3), work, {
    signal,
    retryMs: HEARTBEAT_RETRY_DELAY_MS,
    onError: (error) => log.warn({ err: error }, 'a heartbeat failed'),
  });
}

/** Creates a runner that processes claimed jobs and renews their leases. Specification 001, Raw data status. */
export function createJobRunner(deps: RunnerOptions) {
  const { db, metrics, log, leaseMs } = deps;
  const endJob = createJobEnder(deps);
  const runningJobs = new Map<RunningJob, Promise<unknown>>();
  const closeController = new AbortController();
  let isClosing = false;

  const getProgress = ({ job, stages, usage }: RunningJob) => ({
    ...job,
    stages,
    modelUsage: usage.getUsage(),
  });

  async function renewRunningLeases(): Promise<void> {
    if (runningJobs.size === 0) return;
    const jobs = [...runningJobs.keys()].map((active) => ({ ...active, ...getProgress(active) }));
    for (const { controller } of await renewLeases(db, jobs, leaseMs)) {
      controller.abort(new LeaseLostError());
    }
  }

  const renewalLoop = repeatPerLease(deps, renewRunningLeases, closeController.signal);

  /** Calls the job's handler. Returns undefined if the claim is lost. */
  async function runHandler(
    { controller: { signal }, stages, usage }: RunningJob,
    handler: JobHandler,
  ): Promise<JobOutcome | undefined> {
    try {
      signal.throwIfAborted();
      return await handler({ signal, stages, usage });
    } catch (error) {
      const reason = signal.reason ?? error;
      const isClaimLost = reason instanceof LeaseLostError;
      if (isClaimLost || signal.aborted || isDatabaseOutage(error)) {
        log.warn({ err: reason }, 'a job was aborted');
        return isClaimLost ? undefined : { status: 'returned' };
      }
      log.error({ err: error }, 'a job threw an exception');
      const failure = { code: 'internal_error', message: 'The worker failed; see its log.' };
      return { status: 'failed', error: failure };
    }
  }

  async function runAndStore(runningJob: RunningJob, handler: JobHandler): Promise<ClaimResult> {
    const outcome = await runHandler(runningJob, handler);
    if (outcome === undefined) return 'lost';
    const endedJob = { ...getProgress(runningJob), ...outcome };
    // Retry once after a dropped connection. After a longer outage, or a failed requeue, the job counts as lost.
    const maxWriteAttempts = outcome.status === 'returned' ? 1 : 2;
    for (let writeAttempt = 1; writeAttempt <= maxWriteAttempts; writeAttempt += 1) {
      try {
        return await endJob(endedJob);
      } catch (error) {
        log.warn({ err: error }, 'the outcome of a job could not be stored');
      }
    }
    return 'lost';
  }

  return {
    /** Number of running jobs. */
    get size() {
      return runningJobs.size;
    },

    /** Returns the raw record IDs of the running jobs. */
    getRawIds: () => [...runningJobs.keys()].map(({ job }) => job.rawId),

    /**
     * Processes a job and stores its outcome. Never rejects: `lost` means a lost claim or an unavailable database.
     * @param handler Function that processes the job. If it throws without an abort or an outage, the job fails.
     */
    run(job: Job, handler: JobHandler): Promise<ClaimResult> {
      const controller = new AbortController();
      const runningJob = { job, controller, stages: [], usage: createModelUsageCounter() };
      if (isClosing) controller.abort(new Error('The process is shutting down'));
      const completion = withLogFields(getJobLogFields(job), async () => {
        const startedAt = performance.now();
        const outcome = await runAndStore(runningJob, handler);
        metrics.jobs.inc({ outcome });
        log.info({ outcome, duration_ms: Math.round(performance.now() - startedAt) }, 'job');
        return outcome;
      }).finally(() => runningJobs.delete(runningJob));
      runningJobs.set(runningJob, completion);
      return completion;
    },

    /** Requeues new jobs, waits at most `timeoutMs` for running jobs, then aborts the rest. */
    async close({ timeoutMs }: { timeoutMs: number }): Promise<void> {
      isClosing = true;
      await waitWithTimeout(Promise.all(runningJobs.values()), timeoutMs);
      for (const { controller } of runningJobs.keys()) {
        controller.abort(new Error('The process is shutting down'));
      }
      closeController.abort();
      await waitWithTimeout(Promise.all([...runningJobs.values(), renewalLoop]), ABORT_TIMEOUT_MS);
    },
  };
}
