import pLimit from 'p-limit';

/**
 * Maps values with at most `parallel` of them in progress, in their order. After a failure nothing new
 * begins, and the failure comes out when what was in progress has ended.
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
  // Those that were cleared come after the one that failed, so the failure is the first of all.
  return Promise.all(results);
}
