import { setTimeout as sleep } from 'node:timers/promises';

/** Does something at once and then after each interval, until the signal; an error ends nothing. */
export async function repeat(
  intervalMs: number,
  work: () => Promise<void>,
  { signal, onError }: { signal: AbortSignal; onError: (error: unknown) => void },
): Promise<void> {
  while (!signal.aborted) {
    await work().catch(onError);
    await pause(intervalMs, signal);
  }
}

/** Waits, at most until the signal. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}
