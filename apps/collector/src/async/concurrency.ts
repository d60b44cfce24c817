import pLimit from 'p-limit';

/**
 * Maps values in their order, at most `parallel` at once. After a failure nothing new begins.
 * @throws The first failure, once all in progress have ended.
 */
export async function mapParallel<Value, Result>(
  values: readonly Value[],
  parallel: number,
  map: (value: Value) => Promise<Result>,
): Promise<Result[]> {
  const limit = pLimit({ concurrency: parallel, rejectOnClear: true });
  const results = values.map((value) =>
    limit(async () => {
      try {
        return await map(value);
      } catch (error) {
        limit.clearQueue();
        throw error;
      }
    }),
  );
  await Promise.allSettled(results);
  return Promise.all(results);
}

/** How many times `parallel` values may be ahead of the result that is yielded next. */
const AHEAD = 2;

/**
 * Maps values, at most `parallel` at once, and yields the results in their order. After a failure, or when the iteration
 * ends, nothing new begins, and it waits for all in progress.
 */
export async function* mapInOrder<Value, Result>(
  values: readonly Value[],
  parallel: number,
  map: (value: Value) => Promise<Result>,
): AsyncGenerator<Result> {
  const limit = pLimit(parallel);
  const rest = values.values();
  const begun: Promise<Result>[] = [];
  const inProgress = new Set<Promise<unknown>>();
  const begin = (count: number) => {
    for (const value of rest.take(count)) {
      const result = limit(() => {
        const work = map(value).catch((error: unknown) => {
          limit.clearQueue();
          throw error;
        });
        inProgress.add(work);
        return work.finally(() => inProgress.delete(work));
      });
      // The first failure is thrown by the loop; later ones must not be unhandled.
      result.catch(() => undefined);
      begun.push(result);
    }
  };
  try {
    begin(AHEAD * parallel);
    for (let next = begun.shift(); next !== undefined; next = begun.shift()) {
      const result = await next;
      begin(1);
      yield result;
    }
  } finally {
    limit.clearQueue();
    await Promise.allSettled(inProgress);
  }
}

/**
 * Creates a limit on work in progress: past it more is rejected at once instead of waiting in memory. A single item is
 * always admitted.
 * @param limits.reject Creates the error for rejected work.
 * @returns Runs work that holds `size` bytes; rejects with the limit's error, or what the work throws.
 */
export function createAdmissionLimit(limits: {
  maxItems: number;
  maxBytes: number;
  reject: () => Error;
}) {
  const { maxItems, maxBytes, reject } = limits;
  let items = 0;
  let bytes = 0;
  return async <Result>(size: number, work: () => Promise<Result>): Promise<Result> => {
    if (items > 0 && (items + 1 > maxItems || bytes + size > maxBytes)) throw reject();
    items += 1;
    bytes += size;
    try {
      return await work();
    } finally {
      items -= 1;
      bytes -= size;
    }
  };
}
