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

/**
 * How long an answer asks to be left alone: seconds or a date (RFC 9110 §10.2.3).
 * @param now The present, in milliseconds since the epoch, that a date is measured from.
 * @returns Milliseconds; undefined where it does not say so, or what it says cannot be read.
 */
export function retryAfterMs(headers: Headers, now: number): number | undefined {
  const text = headers.get('retry-after')?.trim() ?? '';
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000;
  // A date begins with the name of the day; `Date.parse` alone would guess at more.
  const date = /^[A-Z][a-z]{2,8},? /.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}
