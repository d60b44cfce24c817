import type { JobInput } from '../pipeline/context.ts';
import type { ReprocessedJob } from '../queue/claim.ts';
import type { ProcessJob } from '../queue/job-types.ts';

/** Input of a job that reprocesses a payload. */
export type ReprocessInput = JobInput & {
  before: ReprocessedJob['before'];
  /** Called with the reason if the payload stays unchanged. */
  onUnchanged?: (reason: string) => void;
};

/**
 * Wraps a job processor so that a completed payload stays completed if the job did not write its
 * listing, or if the model failed after the write. Other commands add the missing embedding and
 * descriptions.
 */
export function keepCompleted(process: ProcessJob<JobInput>): ProcessJob<ReprocessInput> {
  return async (job, options) => {
    const result = await process(job, options);
    const { input } = options;
    if (input?.before !== 'completed' || result.status === 'completed') return result;
    const isPostponed = result.status === 'postponed';
    const stages = isPostponed ? (options.stages ?? []) : result.stages;
    const error = isPostponed ? null : result.error;
    const isWritten = stages.some(({ stage, outcome }) => stage === 'upsert' && outcome === 'done');
    const hasModelFailed = result.status === 'failed' && error?.code === 'model_failed';
    if (isWritten && !hasModelFailed) return result;
    if (!isWritten)
      input.onUnchanged?.(error?.message ?? 'A service that it needs is unavailable.');
    return { status: 'completed', error: null, stages, listingId: null };
  };
}
