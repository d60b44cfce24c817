import { ModelError } from '@oselya/model';
import { mapInOrder } from '../async/concurrency.ts';

const PAGE_SIZE = 64;

const MAX_CONSECUTIVE_FAILURES = 10;

/** HTTP statuses that affect every request, such as those for a wrong server URL, API key or model name. */
const MISCONFIGURATION_STATUSES: ReadonlySet<number | undefined> = new Set([
  401, 402, 403, 404, 405, 407, 421,
]);

/** Returns whether a failure of the model affects every listing, such as an outage, a wrong key or a missing model. */
export function isSystemicFailure(error: unknown): error is ModelError {
  if (!(error instanceof ModelError)) return false;
  const { code, status = 0, retryable } = error;
  if (retryable || code === 'MODEL_MISCONFIGURED' || code === 'MODEL_CLOSED') return true;
  const isRedirect = status >= 300 && status < 400;
  return code === 'MODEL_REJECTED' && (isRedirect || MISCONFIGURATION_STATUSES.has(status));
}

/**
 * Processes listings in ID order, several at a time, and yields the results.
 * @param options.after Skips listings up to this ID.
 * @param options.list Returns the first listings after an ID.
 * @param options.work Processes one listing. An exception stops the iteration.
 * @param options.signal Stops the iteration and drops the results of work in progress.
 * @throws ModelError if a failure is systemic; the last error after ten consecutive failures.
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

  async function processRow(row: Row): Promise<Result> {
    const result = await options.work(row);
    if ('error' in result && isSystemicFailure(result.error)) throw result.error;
    return result;
  }

  let consecutiveFailures = 0;
  for (let [lastId, remainingCount] = [options.after, limit]; remainingCount > 0;) {
    const page = await list(lastId, Math.min(PAGE_SIZE, remainingCount));
    for await (const result of mapInOrder(page, parallel, processRow)) {
      consecutiveFailures = 'error' in result ? consecutiveFailures + 1 : 0;
      if ('error' in result && consecutiveFailures === MAX_CONSECUTIVE_FAILURES) throw result.error;
      yield result;
      if (signal.aborted) return;
    }
    lastId = page.at(-1)?.id ?? Infinity;
    remainingCount = page.length < PAGE_SIZE ? 0 : remainingCount - page.length;
  }
}
