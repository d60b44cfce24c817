import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../database.ts';
import type { Metrics } from '../metrics.ts';
import { type Job, LeaseLostError } from './job.ts';
import { finishJob, type JobResult, returnJob } from './repository.ts';

export type JobOptions = {
  /** Aborted when the claim is lost or the worker ends. */
  signal: AbortSignal;
  /** Whether the job was let through to see if the model answers again. */
  probe: boolean;
};

/** What a job came to; `postponed` is back to the queue, because the model is being left alone. */
export type ProcessResult = JobResult | { status: 'postponed' };

/** The work of a job. It writes nothing about the job's status. */
export type ProcessJob = (job: Job, options: JobOptions) => Promise<ProcessResult>;

export type JobOutcome = ProcessResult['status'] | 'lost';

/**
 * Makes the function that does a job's work and writes the one status that it came to. An exception
 * fails the job. The function itself never throws: a status that could not be written is left to the
 * rescue of lost leases. Specification 001, Raw data status.
 */
export function createJobRunner(deps: {
  db: Kysely<Tables>;
  process: ProcessJob;
  metrics: Pick<Metrics, 'jobs'>;
  log: Logger;
}): (job: Job, options: JobOptions) => Promise<JobOutcome> {
  const { db, process, metrics } = deps;

  async function processed(job: Job, options: JobOptions, log: Logger): Promise<ProcessResult> {
    try {
      return await process(job, options);
    } catch (error) {
      if (options.signal.aborted || error instanceof LeaseLostError) throw error;
      log.error({ err: error }, 'a job threw an exception');
      const message = 'The worker failed; its log has more.';
      return {
        status: 'failed',
        error: { code: 'internal_error', message },
        stages: [],
        listingId: null,
      };
    }
  }

  async function settled(job: Job, options: JobOptions, log: Logger): Promise<JobOutcome> {
    try {
      const result = await processed(job, options, log);
      const written =
        result.status === 'postponed' ? await returnJob(db, job) : await finishJob(db, job, result);
      return written ? result.status : 'lost';
    } catch (error) {
      log.warn({ err: options.signal.reason ?? error }, 'a job was given up');
      return 'lost';
    }
  }

  return async (job, options) => {
    const log = deps.log.child({ raw_id: job.rawId, source: job.sourceSlug, attempt: job.attempt });
    const startedAt = performance.now();
    const outcome = await settled(job, options, log);
    metrics.jobs.inc({ outcome });
    log.info({ outcome, duration_ms: Math.round(performance.now() - startedAt) }, 'job');
    return outcome;
  };
}
