import { isDatabaseOutage } from '@oselya/db';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import type { JobInput } from '../pipeline/context.ts';
import type { JobAgain } from '../queue/claim.ts';
import type { Job, ProcessJob, ProcessResult } from '../queue/job.ts';
import { isComplete } from './repository.ts';

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
export function keepCompleted(
  db: Kysely<Tables>,
  process: ProcessJob<JobInput>,
): ProcessJob<AgainInput> {
  /** A write whose answer was lost may have been made. Where that cannot be found out it is taken to be. */
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
    const stages = result.status === 'postponed' ? (options.stages ?? []) : result.stages;
    const upsert = stages.find(({ stage }) => stage === 'upsert');
    const isWritten =
      upsert !== undefined && (upsert.outcome === 'done' || (await mayBeWritten(job)));
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
