/**
 * Maps values with at most `parallel` of them in progress, in their order. After a failure nothing new
 * begins, and the failure comes out when what was in progress has ended.
 */
export async function mapParallel<Value, Result>(
  values: readonly Value[],
  parallel: number,
  map: (value: Value) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  const waiting = values.entries();
  let hasFailed = false;
  async function work(): Promise<void> {
    for (const [index, value] of waiting) {
      if (hasFailed) return;
      try {
        results[index] = await map(value);
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    }
  }
  const workers = Array.from({ length: Math.min(parallel, values.length) }, work);
  const failure = (await Promise.allSettled(workers)).find((one) => one.status === 'rejected');
  if (failure !== undefined) throw failure.reason;
  return results;
}
