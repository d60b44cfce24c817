import { after } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

/** Far longer than any condition takes, however busy the machine is. */
const LIMIT_MS = 60_000;

const MIN_PAUSE_MS = 5;
const MAX_PAUSE_MS = 100;

/** A pause is this many times as long as the check before it, which takes time from the awaited work. */
const PAUSE_FACTOR = 9;

/** A condition that holds when it gives anything but `undefined` and `false`. */
type Condition<Result> = () => Promise<Result | undefined | false> | Result | undefined | false;

const opened = new AsyncDisposableStack();
after(() => opened.disposeAsync());

/**
 * Calls a function when the tests of the file have ended: the last one given first, and each even when another fails.
 * Node's own hooks run in the order of their registration, and none after one that failed.
 */
export function atEnd(work: () => Promise<void> | void): void {
  opened.defer(work);
}

/**
 * Waits until a condition holds.
 * @param description Completes "Waited in vain for …".
 * @returns What the condition gave.
 * @throws Error after the limit, a minute unless given.
 * @example
 * await until('the job to end', async () => (await statusOf(job)) === 'processed');
 */
export function until<Result>(
  description: string,
  condition: Condition<Result>,
  limitMs?: number,
): Promise<Result>;
export function until<Result>(
  condition: Condition<Result>,
  options?: { limitMs?: number },
): Promise<Result>;
export async function until<Result>(
  ...given:
    | [description: string, condition: Condition<Result>, limitMs?: number]
    | [condition: Condition<Result>, options?: { limitMs?: number }]
): Promise<Result> {
  const [description, condition, limitMs = LIMIT_MS] =
    typeof given[0] === 'string'
      ? (given as [string, Condition<Result>, number?])
      : ['the condition', given[0], (given[1] as { limitMs?: number } | undefined)?.limitMs];
  const deadline = performance.now() + limitMs;
  for (;;) {
    const began = performance.now();
    const result = await condition();
    if (result !== undefined && result !== false) return result;
    if (performance.now() > deadline) {
      throw new Error(`Waited in vain for ${description}, ${limitMs} ms`);
    }
    const pauseMs = PAUSE_FACTOR * (performance.now() - began);
    await sleep(Math.min(MAX_PAUSE_MS, Math.max(MIN_PAUSE_MS, pauseMs)));
  }
}
