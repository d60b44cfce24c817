import { ModelError } from '@oselya/model';
import { mapInOrder } from '../async/concurrency.ts';

const PAGE = 64;

/** A failure of so many listings in a row ends a walk. */
const MAX_FAILED_IN_A_ROW = 10;

/** Statuses of a server with a wrong address, key or name of the model. */
const MISCONFIGURED: ReadonlySet<number | undefined> = new Set([401, 402, 403, 404, 405, 407, 421]);

/** Tells whether a failure would meet every listing: the server is away, rejects the key, or lacks the model. */
export function isSystemicFailure(error: unknown): error is ModelError {
  if (!(error instanceof ModelError)) return false;
  const { code, status, retryable } = error;
  if (retryable || code === 'MODEL_MISCONFIGURED' || code === 'MODEL_CLOSED') return true;
  const isRedirect = status !== undefined && status >= 300 && status < 400;
  return code === 'MODEL_REJECTED' && (isRedirect || MISCONFIGURED.has(status));
}

/**
 * Works on listings in the order of their ids, several at once, page by page, and yields the results.
 * @param options.after Only listings with a larger id.
 * @param options.list Returns the first listings after an id.
 * @param options.work The work; an exception ends the walk.
 * @param options.signal Ends the walk; the results of work in progress are dropped.
 * @throws The failure that `isSystemicFailure`, or the tenth in a row.
 */
export async function* walkListings<
  Row extends { id: number },
  Result extends { outcome: string } | { outcome: 'failed'; error: Error },
>(options: {
  after: number | undefined;
  limit: number;
  parallel: number;
  signal: AbortSignal;
  list: (after: number | undefined, limit: number) => Promise<Row[]>;
  work: (row: Row) => Promise<Result>;
}): AsyncGenerator<Result> {
  const { limit, parallel, signal, list } = options;

  async function work(row: Row): Promise<Result> {
    const result = await options.work(row);
    // Thrown here, it keeps further work from beginning.
    if ('error' in result && isSystemicFailure(result.error)) throw result.error;
    return result;
  }

  let failedInARow = 0;
  for (let [after, left] = [options.after, limit]; left > 0;) {
    const page = await list(after, Math.min(PAGE, left));
    for await (const result of mapInOrder(page, parallel, work)) {
      failedInARow = 'error' in result ? failedInARow + 1 : 0;
      if ('error' in result && failedInARow === MAX_FAILED_IN_A_ROW) throw result.error;
      yield result;
      if (signal.aborted) return;
    }
    after = page.at(-1)?.id ?? Infinity;
    left = page.length < PAGE ? 0 : left - page.length;
  }
}
