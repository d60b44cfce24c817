import pLimit from 'p-limit';

/**
 * Maps values with at most `concurrency` parallel calls, and yields the results in order. After a failed call or an
 * early end of the iteration, no further calls start, and the calls in progress are awaited.
 * @param maxAhead Maximum number of calls, queued or started, whose results the consumer has not received.
 */
export async function* mapInOrder<Value, Result>(
  values: readonly Value[],
  concurrency: number,
  map: (value: Value) => Promise<Result>,
  maxAhead = 2 * concurrency,
): AsyncGenerator<Result> {
  const limit = pLimit({ concurrency, rejectOnClear: true });
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
      // The iteration throws the first error in order. Other errors must not become unhandled rejections.
      result.catch(() => undefined);
      results.push(result);
      const firstResult = results.length < maxAhead ? undefined : results.shift();
      if (firstResult !== undefined) yield await firstResult;
    }
    for (const result of results) yield await result;
  } finally {
    limit.clearQueue();
    await Promise.allSettled(results);
  }
}

/**
 * Maps values with at most `concurrency` parallel calls. A failure prevents further calls.
 * @throws The first error in the order of the values, after all calls in progress have settled.
 */
export function mapParallel<Value, Result>(
  values: readonly Value[],
  concurrency: number,
  map: (value: Value) => Promise<Result>,
): Promise<Result[]> {
  return Array.fromAsync(mapInOrder(values, concurrency, map, values.length));
}

/**
 * Creates an admission limit, which rejects work above the limit instead of queueing it. If no work is in progress,
 * work of any size is admitted.
 * @param limits.reject Creates the error for rejected work.
 * @returns A function that runs work that holds `workBytes` in memory, or rejects it.
 */
export function createAdmissionLimit(limits: {
  maxItems: number;
  maxBytes: number;
  reject: () => Error;
}) {
  const { maxItems, maxBytes, reject } = limits;
  let itemCount = 0;
  let byteCount = 0;
  return async <Result>(workBytes: number, work: () => Promise<Result>): Promise<Result> => {
    if (itemCount > 0 && (itemCount + 1 > maxItems || byteCount + workBytes > maxBytes))
      throw reject();
    itemCount += 1;
    byteCount += workBytes;
    try {
      return await work();
    } finally {
      itemCount -= 1;
      byteCount -= workBytes;
    }
  };
}
