import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Runs work immediately and after each interval until the signal aborts. Errors do not stop the loop.
 * @param options.retryMs Interval after an error, in milliseconds, if it is shorter.
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
    await pause(pauseMs, signal);
  }
}

/** Waits for a time, or until the signal aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}

/** Waits at most `timeoutMs` for a promise. Resolves to whether it was fulfilled in time. */
export async function settlesWithin(
  awaited: Promise<unknown>,
  timeoutMs: number,
): Promise<boolean> {
  const late = Promise.withResolvers<boolean>();
  const timer = setTimeout(late.resolve, timeoutMs, false);
  try {
    return await Promise.race([awaited.then(() => true), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Waits for work that ignores signals, until the signal aborts.
 * @throws The error of the work; `signal.reason`.
 */
export async function rejectOnAbort<Result>(
  signal: AbortSignal,
  work: Promise<Result>,
): Promise<Result> {
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** Starts a countdown. Returns a function that reports the remaining milliseconds. */
export function startCountdown(timeoutMs: number): () => number {
  const deadline = performance.now() + timeoutMs;
  return () => Math.max(0, deadline - performance.now());
}

/** Event that wakes one waiter and then resets itself. Repeated sets count once. */
export type AutoResetEvent = {
  /** Wakes the current waiter, or the next one. */
  set: () => void;
  /** Waits at most `timeoutMs` until the event is set, and resets it. */
  wait: (timeoutMs: number) => Promise<void>;
};

/** Creates an event that is not set. */
export function createAutoResetEvent(): AutoResetEvent {
  let isSet = false;
  let wake: (() => void) | undefined;
  return {
    set() {
      isSet = true;
      wake?.();
    },
    async wait(timeoutMs) {
      if (!isSet) {
        const { promise, resolve } = Promise.withResolvers<void>();
        const timer = setTimeout(resolve, timeoutMs);
        wake = resolve;
        await promise;
        clearTimeout(timer);
        wake = undefined;
      }
      isSet = false;
    },
  };
}

/** Closes a resource. */
export type Close = () => Promise<void>;

/**
 * Closes all parts concurrently, and waits until all are closed.
 * @throws The first error.
 */
export async function closeAll(parts: readonly Close[]): Promise<void> {
  const results = await Promise.allSettled(parts.map((close) => close()));
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}
