import pLimit from 'p-limit';

/**
 * Maps values with at most `parallel` calls at once, and yields the results in order. When the iteration ends or
 * a call fails, it starts no further calls and waits for the calls in progress.
 * @param maxAhead Maximum number of results that wait for the consumer.
 */
export async function* mapInOrder<Value, Result>(
  values: readonly Value[],
  parallel: number,
  map: (value: Value) => Promise<Result>,
  maxAhead = 2 * parallel,
): AsyncGenerator<Result> {
  const limit = pLimit({ concurrency: parallel, rejectOnClear: true });
  const results: Promise<Result>[] = [];
  let hasFailed = false;
  try {
    for (const value of values) {
      if (hasFailed) break;
      const result = limit(() =>
        map(value).catch((error: unknown) => {
          hasFailed = true;
          limit.clearQueue();
          throw error;
        }),
      );
      // The iteration throws the first error. Later errors must not become unhandled rejections.
      result.catch(() => undefined);
      results.push(result);
      const first = results.length < maxAhead ? undefined : results.shift();
      if (first !== undefined) yield await first;
    }
    for (const result of results) yield await result;
  } finally {
    limit.clearQueue();
    await Promise.allSettled(results);
  }
}

/**
 * Maps values with at most `parallel` calls at once. A failure prevents further calls.
 * @throws The first error, after all calls in progress have settled.
 */
export function mapParallel<Value, Result>(
  values: readonly Value[],
  parallel: number,
  map: (value: Value) => Promise<Result>,
): Promise<Result[]> {
  return Array.fromAsync(mapInOrder(values, parallel, map, values.length));
}

/**
 * Creates an admission limit: work above the limit is rejected instead of queued. A single item is always admitted.
 * @param limits.reject Creates the error for rejected work.
 * @returns A function that runs work with `size` bytes in memory, or rejects it.
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
