import pLimit from 'p-limit';

/** How many times as many as are in progress may be ahead of the result that is given next. */
const AHEAD = 2;

/**
 * Maps values with at most `parallel` of them in progress, and gives each result as soon as those before
 * it have been given. A slow one holds up those that are far behind it. After a failure, or when nobody asks
 * any more, nothing new begins, and what has begun is waited for.
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
      // Whoever waits for the first failure is told of it; nobody waits for those after it.
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
