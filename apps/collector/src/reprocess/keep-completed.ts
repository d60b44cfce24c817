import { isDatabaseOutage } from '@oselya/db';
import type { Kysely } from 'kysely';
import type { JobInput } from '../pipeline/context.ts';
import type { ReprocessedJob } from '../queue/claim.ts';
import type { Job, ProcessJob } from '../queue/job-types.ts';
import type { Tables } from '../tables.ts';
import { isComplete } from './repository.ts';

/** Input of a job that reprocesses a payload. */
export type ReprocessInput = JobInput & {
  before: ReprocessedJob['before'];
  /** Called with the reason if the payload stays unchanged. */
  onKept?: (reason: string) => void;
};

/**
 * Wraps a job processor so that a completed payload stays completed if the job did not write its listing, or if the
 * model failed after the write. Other commands update missing embeddings and descriptions.
 */
export function keepCompleted(
  db: Kysely<Tables>,
  process: ProcessJob<JobInput>,
): ProcessJob<ReprocessInput> {
  /** Returns whether the job may have written its listing. An outage can hide the success of a write. */
  async function mayBeWritten(job: Job): Promise<boolean> {
    try {
      return !(await isComplete(db, job));
    } catch (error) {
      if (isDatabaseOutage(error)) return true;
      throw error;
    }
  }

  return async (job, options) => {
    const result = await process(job, options);
    const { input } = options;
    if (input?.before !== 'completed' || result.status === 'completed') return result;
    const isPostponed = result.status === 'postponed';
    const stages = isPostponed ? (options.stages ?? []) : result.stages;
    const error = isPostponed ? null : result.error;
    const upsert = stages.find(({ stage }) => stage === 'upsert');
    const isWritten =
      upsert !== undefined && (upsert.outcome === 'done' || (await mayBeWritten(job)));
    const hasModelFailed = result.status === 'failed' && error?.code === 'model_failed';
    if (isWritten && !hasModelFailed) return result;
    if (!isWritten) input.onKept?.(error?.message ?? 'A service that it needs is unavailable.');
    return { status: 'completed', error: null, stages, listingId: null };
  };
}
