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
