import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Does work at once and then after each interval, until the signal; an error does not end it.
 * @param options.retryMs The interval after an error, where that is shorter.
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

/** Waits, at most until the signal. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}

/** Waits for a promise, at most `timeoutMs`. Resolves to whether it settled in time. */
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
 * Waits for work that cannot be aborted itself.
 * @throws What the work throws; `signal.reason`.
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

/** Starts a countdown. Returns a function that returns the milliseconds left, for waits that share them. */
export function startCountdown(timeoutMs: number): () => number {
  const deadline = performance.now() + timeoutMs;
  return () => Math.max(0, deadline - performance.now());
}

/** Wakes one waiter, once for however many times it was set before. */
export type AutoResetEvent = {
  /** Ends the wait, or the next one. */
  set: () => void;
  /** Waits until it is set, at most `timeoutMs`, and resets it. */
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

/** Ends something. */
export type Close = () => Promise<void>;

/**
 * Closes all parts at once, and waits for all.
 * @throws The first failure.
 */
export async function closeAll(parts: readonly Close[]): Promise<void> {
  const results = await Promise.allSettled(parts.map((close) => close()));
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}
