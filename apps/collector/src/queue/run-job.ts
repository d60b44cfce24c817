import { type Logger, withLogFields } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { StageRecord, Tables } from '../database.ts';
import type { UploadedFile } from '../images/index.ts';
import type { Metrics } from '../metrics.ts';
import type { Extracted } from '../pipeline/extraction.ts';
import { createModelCost, type ModelCost } from '../pipeline/model-cost.ts';
import { createFinish } from './finish.ts';
import { type Job, LeaseLostError, logFieldsOf } from './job.ts';
import { type JobResult, returnJob } from './repository.ts';

export type JobOptions = {
  /** Aborted when the claim is lost or the worker ends. */
  signal: AbortSignal;
  /** Where the stages that it has been through are noted, for whoever looks meanwhile. */
  stages?: StageRecord[] | undefined;
  /** Where the requests to the model are counted, for whoever gives the job back meanwhile. */
  cost?: ModelCost | undefined;
  /** Pictures that came along: the listing then has these, whatever addresses the payload names. */
  uploads?: readonly UploadedFile[] | undefined;
  /** Process the payload although the listing was made from the same content. */
  force?: boolean | undefined;
  /** What the model has read out of the payload before: it is not asked, and the pictures stay. */
  extracted?: Extracted | undefined;
};

/** What a job came to; `postponed` is back to the queue, because the model is being left alone. */
export type ProcessResult = JobResult | { status: 'postponed' };

/** The work of a job, which counts in `cost` what it asks the model. It writes nothing about the job's status. */
export type ProcessJob = (job: Job, options: JobOptions) => Promise<ProcessResult>;

export type JobOutcome = ProcessResult['status'] | 'lost';

/**
 * Makes the function that does a job's work and writes the one status that it came to. An exception
 * fails the job. The function itself never throws: a status that could not be written is left to the
 * rescue of lost leases. `onProcessed` is called where there is nothing left but to write that a job has
 * ended. Specification 001, Raw data status.
 */
export function createJobRunner(deps: {
  db: Kysely<Tables>;
  process: ProcessJob;
  metrics: Pick<Metrics, 'jobs'>;
  log: Logger;
}): (job: Job, options: JobOptions, onProcessed?: () => void) => Promise<JobOutcome> {
  const { db, process, metrics, log } = deps;
  const finish = createFinish(deps);

  async function processed(job: Job, options: JobOptions): Promise<ProcessResult> {
    try {
      return await process(job, options);
    } catch (error) {
      if (options.signal.aborted || error instanceof LeaseLostError) throw error;
      log.error({ err: error }, 'a job threw an exception');
      const message = 'The worker failed; its log has more.';
      return {
        status: 'failed',
        error: { code: 'internal_error', message },
        stages: options.stages ?? [],
        listingId: null,
      };
    }
  }

  async function settled(
    job: Job,
    options: JobOptions,
    onProcessed?: () => void,
  ): Promise<JobOutcome> {
    const { cost = createModelCost() } = options;
    try {
      const result = await processed(job, { ...options, cost });
      if (result.status === 'postponed') {
        return (await returnJob(db, job, cost.usage())) ? 'postponed' : 'lost';
      }
      onProcessed?.();
      return (await finish({ job, result, modelUsage: cost.usage() })) ? result.status : 'lost';
    } catch (error) {
      log.warn({ err: options.signal.reason ?? error }, 'a job was given up');
      return 'lost';
    }
  }

  return (job, options, onProcessed) =>
    withLogFields(logFieldsOf(job), async () => {
      const startedAt = performance.now();
      const outcome = await settled(job, options, onProcessed);
      metrics.jobs.inc({ outcome });
      log.info({ outcome, duration_ms: Math.round(performance.now() - startedAt) }, 'job');
      return outcome;
    });
}
