import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Runs background work immediately and after each interval until the signal aborts. Errors do not stop the loop. Its
 * pauses do not keep the process running.
 * @param options.retryMs Interval after an error, in milliseconds, if it is shorter than `intervalMs`.
 */
export async function repeat(
  intervalMs: number,
  work: () => Promise<void>,
  options: { signal: AbortSignal; onError: (error: unknown) => void; retryMs?: number },
): Promise<void> {
  const { signal, onError, retryMs = intervalMs } = options;
  while (!signal.aborted) {
    let pauseMs = intervalMs;
    await work().catch((error: unknown) => {
      pauseMs = Math.min(intervalMs, retryMs);
      onError(error);
    });
    await sleep(pauseMs, undefined, { signal, ref: false }).catch(() => undefined);
  }
}

/** Waits for `ms` milliseconds, or until the signal aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}

/** Waits at most `timeoutMs` for a promise. Returns whether it was fulfilled in time, and throws its error. */
export async function waitWithTimeout(
  promise: Promise<unknown>,
  timeoutMs: number,
): Promise<boolean> {
  const timeout = Promise.withResolvers<boolean>();
  const timer = setTimeout(timeout.resolve, timeoutMs, false);
  try {
    return await Promise.race([promise.then(() => true), timeout.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Waits for work that ignores signals, until the signal aborts.
 * @throws The error of the work, or `signal.reason`.
 */
export async function rejectOnAbort<Result>(
  signal: AbortSignal,
  work: Promise<Result>,
): Promise<Result> {
  const { promise: abortPromise, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    // The race also handles an error of the work after the abort, which would otherwise crash the process.
    return await Promise.race([abortPromise, work]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
