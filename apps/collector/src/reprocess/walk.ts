import { ModelError } from '@oselya/model';
import { mapInOrder } from '../async/map.ts';

const PAGE = 64;

/** What fails on so many in a row fails on all, for a reason of its own. */
const MAX_FAILED_IN_A_ROW = 10;

/** Statuses of a server that speaks of an address, a key or a name, and of no payload. */
const OF_SETTINGS: ReadonlySet<number | undefined> = new Set([401, 402, 403, 404, 405, 407, 421]);

/**
 * Whether a failure would meet every other listing too: the server is away, refuses the key, or does not know the
 * model.
 */
export function isOfAll(error: unknown): error is ModelError {
  if (!(error instanceof ModelError)) return false;
  const { code, status, retryable } = error;
  if (retryable || code === 'MODEL_MISCONFIGURED' || code === 'MODEL_CLOSED') return true;
  const isRedirect = status !== undefined && status >= 300 && status < 400;
  return code === 'MODEL_REJECTED' && (isRedirect || OF_SETTINGS.has(status));
}

/**
 * Does something for listing after listing, several at once, and gives what came of each in the order of their
 * ids: page after page, so that what comes in or is done meanwhile counts.
 * @param options.after Only listings with a larger id.
 * @param options.limit How many at most.
 * @param options.list The first listings after an id, in the order of their ids.
 * @param options.work What is done; what it throws ends the walk.
 * @param options.failureOf What made it fail, if it did.
 * @param options.signal Ends it: what has begun goes on, and is not given any more.
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

  /** Thrown, so that nothing more begins. */
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
