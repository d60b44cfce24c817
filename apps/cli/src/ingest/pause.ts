import { setTimeout as sleep } from 'node:timers/promises';

/** Holds back all requests of a run together, since a limit is one for all of them. */
export type Pause = {
  /** Waits until nobody is held back any more. @throws AbortError. */
  wait(signal: AbortSignal): Promise<void>;
  /** Holds everybody back for so long, counted from now. */
  hold(durationMs: number): void;
};

/** @param now The time in milliseconds, as `performance.now` tells it. */
export function createPause(now: () => number = () => performance.now()): Pause {
  let until = 0;
  return {
    async wait(signal) {
      signal.throwIfAborted();
      for (let left = until - now(); left > 0; left = until - now()) {
        await sleep(left, undefined, { signal });
      }
    },
    hold(durationMs) {
      until = Math.max(until, now() + durationMs);
    },
  };
}
