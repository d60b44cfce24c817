import pLimit from 'p-limit';

/**
 * Maps values with at most `parallel` calls at once. A failure prevents further calls.
 * @throws The first error, after all calls in progress have settled.
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

/** Read-ahead limit, as a multiple of `parallel`. */
const AHEAD = 2;

/**
 * Maps values with at most `parallel` calls at once, and yields the results in order. When the iteration ends or
 * a call fails, it starts no further calls and waits for the calls in progress.
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
      // The loop throws the first error. Later errors must not become unhandled rejections.
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
