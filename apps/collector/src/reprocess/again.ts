import { isDatabaseOutage } from '@oselya/db';
import { ModelError } from '@oselya/model';
import type { Kysely } from 'kysely';
import { mapInOrder } from '../async/concurrency.ts';
import type { JobInput } from '../pipeline/context.ts';
import type { JobAgain } from '../queue/claim.ts';
import type { Job, ProcessJob, ProcessResult } from '../queue/job.ts';
import type { Tables } from '../tables.ts';
import { isComplete } from './repository.ts';

/** The input of a job that is processed again. */
export type AgainInput = JobInput & {
  before: JobAgain['before'];
  /** Called with the reason when the payload stays as it was. */
  onKept?: (reason: string) => void;
};

/**
 * Wraps the work of jobs so that a completed payload stays completed where nothing of its listing was written, or where
 * the model failed afterwards: an outdated embedding or description has a command of its own.
 */
export function keepCompleted(
  db: Kysely<Tables>,
  process: ProcessJob<JobInput>,
): ProcessJob<AgainInput> {
  /** A write whose answer was lost may have been made. */
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

const PAGE = 64;

/** A failure of so many listings in a row is one of all. */
const MAX_FAILED_IN_A_ROW = 10;

/** Statuses of a server that speaks of an address, a key or a name. */
const OF_SETTINGS: ReadonlySet<number | undefined> = new Set([401, 402, 403, 404, 405, 407, 421]);

/** Tells whether a failure would meet every listing: the server is away, rejects the key, or lacks the model. */
export function isOfAll(error: unknown): error is ModelError {
  if (!(error instanceof ModelError)) return false;
  const { code, status, retryable } = error;
  if (retryable || code === 'MODEL_MISCONFIGURED' || code === 'MODEL_CLOSED') return true;
  const isRedirect = status !== undefined && status >= 300 && status < 400;
  return code === 'MODEL_REJECTED' && (isRedirect || OF_SETTINGS.has(status));
}

/**
 * Works on listings in the order of their ids, several at once, page by page, and yields the results.
 * @param options.after Only listings with a larger id.
 * @param options.limit How many at most.
 * @param options.list Returns the first listings after an id.
 * @param options.work The work; an exception ends the walk.
 * @param options.failureOf Returns the failure of a result, if it is one.
 * @param options.signal Ends the walk; work in progress ends unheard.
 * @throws The failure that `isOfAll`, or the tenth in a row.
 */
export async function* walkListings<Row extends { id: number }, Result>(options: {
  after: number | undefined;
  limit: number;
  parallel: number;
  signal: AbortSignal;
  list: (after: number | undefined, limit: number) => Promise<Row[]>;
  work: (row: Row) => Promise<Result>;
  failureOf: (result: Result) => Error | undefined;
}): AsyncGenerator<Result> {
  const { limit, parallel, signal, list, failureOf } = options;

  /** Throws a failure of all, so that nothing more begins. */
  async function work(row: Row): Promise<Result> {
    const result = await options.work(row);
    const failure = failureOf(result);
    if (isOfAll(failure)) throw failure;
    return result;
  }

  let failedInARow = 0;
  for (let [after, left] = [options.after, limit]; left > 0;) {
    const page = await list(after, Math.min(PAGE, left));
    for await (const result of mapInOrder(page, parallel, work)) {
      const failure = failureOf(result);
      failedInARow = failure === undefined ? 0 : failedInARow + 1;
      if (failure !== undefined && failedInARow === MAX_FAILED_IN_A_ROW) throw failure;
      yield result;
      if (signal.aborted) return;
    }
    after = page.at(-1)?.id ?? Infinity;
    left = page.length < PAGE ? 0 : left - page.length;
  }
}
