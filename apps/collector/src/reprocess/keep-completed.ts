import type { JobInput } from '../pipeline/context.ts';
import type { JobAgain, ProcessJob, ProcessResult } from '../queue/index.ts';

/** A job that is processed again: what it was, and who wants to hear that it is as it was. */
export type AgainInput = JobInput & {
  before: JobAgain['before'];
  /** Told why the job came to nothing, and the payload is as it was. */
  onKept?: (reason: string) => void;
};

/**
 * Makes the work of jobs that keep what was right: a payload that went through every stage before stays
 * completed where nothing of its listing was written, or where what failed then is the model, which leaves an
 * embedding or a description outdated that has a command of its own. `onFailure` tells of the failure.
 */
export function keepCompleted(process: ProcessJob<JobInput>): ProcessJob<AgainInput> {
  return async (job, options) => {
    const result = await process(job, options);
    const { input } = options;
    if (input?.before !== 'completed' || result.status === 'completed') return result;
    const stages = result.status === 'postponed' ? (options.stages ?? []) : result.stages;
    const isWritten = stages.some(({ stage, outcome }) => stage === 'upsert' && outcome === 'done');
    if (isWritten && !isOfModel(result)) return result;
    if (!isWritten) input.onKept?.(reasonOf(result));
    return { status: 'completed', error: null, stages, listingId: null };
  };
}

function reasonOf(result: ProcessResult): string {
  const { message } = (result.status !== 'postponed' && result.error) || {};
  return message ?? 'What it needs is not there at present.';
}

function isOfModel(result: ProcessResult): boolean {
  return result.status === 'failed' && result.error?.code === 'model_failed';
}
