import { isDatabaseOutage } from '@oselya/db';
import { type Logger, withLogFields } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { repeat, waitWithTimeout } from '../async/wait.ts';
import type { StageRecord, Tables } from '../tables.ts';
import type { Metrics } from '../metrics.ts';
import { createModelCostCounter, type ModelCostCounter } from '../model.ts';
import {
  type Job,
  type JobOutcome,
  type JobOutcomeStatus,
  type JobWork,
  LeaseLostError,
  getJobLogFields,
} from './job-types.ts';
import { createJobFinisher, renewLeases } from './job-writes.ts';

const MAX_HEARTBEAT_MS = 30_000;

/** Short, because a hung connection may already have used half of the lease. */
const HEARTBEAT_RETRY_MS = 1000;

/** Time limit of returning aborted jobs. */
const MAX_ABORT_MS = 1000;

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
  cost: ModelCostCounter;
};

/** Runs the jobs of a worker, a request or a command. */
export type JobRunner = ReturnType<typeof createJobRunner>;

/**
 * Creates a runner of claimed jobs, which renews their leases. Specification 001, Raw data status.
 * @param heartbeat Called three times per lease, and at least every 30 seconds. It must call `renew` first.
 */
export function createJobRunner(
  deps: RunnerOptions,
  heartbeat: (renew: () => Promise<void>) => Promise<void> = (renew) => renew(),
) {
  const { db, metrics, log, leaseMs } = deps;
  const finishJob = createJobFinisher(deps);
  const runningJobs = new Map<RunningJob, Promise<unknown>>();
  const closeController = new AbortController();
  let isClosing = false;

  const getProgress = ({ job, stages, cost }: RunningJob) => ({
    ...job,
    stages,
    modelUsage: cost.getUsage(),
  });

  async function renewJobs(): Promise<void> {
    if (runningJobs.size === 0) return;
    const jobs = [...runningJobs.keys()].map((job) => ({ ...job, ...getProgress(job) }));
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

  /** Does the work of a job. Returns undefined if the claim is lost. */
  async function runWork(
    { controller: { signal }, stages, cost }: RunningJob,
    work: JobWork,
  ): Promise<JobOutcome | undefined> {
    try {
      signal.throwIfAborted();
      return await work({ signal, stages, cost });
    } catch (error) {
      const reason = signal.reason ?? error;
      const isClaimLost = reason instanceof LeaseLostError;
      if (isClaimLost || signal.aborted || isDatabaseOutage(error)) {
        log.warn({ err: reason }, 'a job was dropped');
        return isClaimLost ? undefined : { status: 'returned' };
      }
      log.error({ err: error }, 'a job threw an exception');
      const failure = { code: 'internal_error', message: 'The worker failed; see its log.' };
      return { status: 'failed', error: failure };
    }
  }

  async function settle(runningJob: RunningJob, work: JobWork): Promise<JobOutcomeStatus> {
    const outcome = await runWork(runningJob, work);
    if (outcome === undefined) return 'lost';
    const endedJob = { ...getProgress(runningJob), ...outcome };
    // A cut connection needs one repetition. In a longer outage the job is lost, as is a job that could not be returned.
    const maxAttempts = outcome.status === 'returned' ? 1 : 2;
    for (let attempt = 1; attempt <= maxAttempts; attempt += 1) {
      try {
        return (await finishJob(endedJob)) ? outcome.status : 'lost';
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
     * Processes a job and stores its outcome. Never rejects: returns `lost` if the claim or the database is lost.
     * @param work An exception fails the job.
     */
    run(job: Job, work: JobWork): Promise<JobOutcomeStatus> {
      const controller = new AbortController();
      const runningJob = { job, controller, stages: [], cost: createModelCostCounter() };
      if (isClosing) controller.abort(new Error('The process is shutting down'));
      const completion = withLogFields(getJobLogFields(job), async () => {
        const startedAt = performance.now();
        const outcome = await settle(runningJob, work);
        metrics.jobs.inc({ outcome });
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
