import pLimit from 'p-limit';

/**
 * Maps values with at most `parallel` of them in progress, and gives each result as soon as those before
 * it have been given. After a failure, or when nobody asks any more, nothing new begins.
 */
export async function* mapInOrder<Value, Result>(
  values: readonly Value[],
  parallel: number,
  map: (value: Value) => Promise<Result>,
): AsyncGenerator<Result> {
  const limit = pLimit(parallel);
  const results = values.map((value) =>
    limit(() =>
      map(value).catch((error: unknown) => {
        limit.clearQueue();
        throw error;
      }),
    ),
  );
  // Whoever waits for the first failure is told of it; nobody waits for those after it.
  for (const result of results) result.catch(() => undefined);
  try {
    for (const result of results) yield await result;
  } finally {
    limit.clearQueue();
  }
}
