import { waitWithTimeout } from './wait.ts';

/** A result is kept for this multiple of the time that reading it took, so that reading takes at most 5 % of the time. */
const KEPT_FACTOR = 20;

/**
 * Returns a function that shares a slow result among its callers. When the result has expired, the function reads it
 * again, once for all callers, and waits at most `maxWaitMs` before it returns the last result; undefined without one.
 */
export function createKeptResult<Result>(
  read: () => Promise<Result>,
  maxWaitMs: number,
): () => Promise<Result | undefined> {
  let lastResult: Result | undefined;
  let expiresAt = -Infinity;
  let readPromise: Promise<void> | undefined;

  async function readAgain(): Promise<void> {
    const startedAt = performance.now();
    try {
      lastResult = await read();
      const endedAt = performance.now();
      expiresAt = endedAt + KEPT_FACTOR * (endedAt - startedAt);
    } finally {
      readPromise = undefined;
    }
  }

  return async () => {
    if (performance.now() >= expiresAt) {
      readPromise ??= readAgain();
      await waitWithTimeout(readPromise, maxWaitMs);
    }
    return lastResult;
  };
}
