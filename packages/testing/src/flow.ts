import { after } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

/** Default time limit. It is much longer than any condition takes, even on a busy machine. */
const DEFAULT_LIMIT_MS = 60_000;

const MIN_PAUSE_MS = 5;
const MAX_PAUSE_MS = 100;

/** Ratio of a pause to the duration of the previous check, so that checks do not slow down the awaited work. */
const PAUSE_FACTOR = 9;

/** Condition that is met when it returns a value other than `undefined` and `false`. */
type Condition<Result> = () => Promise<Result | undefined | false> | Result | undefined | false;

/** Returns the number of repetitions of a test: `soak` with `npm run test:soak`, otherwise `ci`. */
export function getRepetitions({ soak, ci }: { soak: number; ci: number }): number {
  return process.env['OSELYA_SOAK'] === '1' ? soak : ci;
}

const cleanups = new AsyncDisposableStack();
after(() => cleanups.disposeAsync());

/**
 * Registers a function that runs after the tests of the file. The functions run in reverse order, even if one of them
 * fails. Node's `after` hooks would run in order of registration, and stop after a failure.
 */
export function deferCleanup(work: () => Promise<void> | void): void {
  cleanups.defer(work);
}

/**
 * Waits until a condition is met.
 * @param description Description of the condition for the error: "Timed out waiting for …".
 * @returns The result of the condition.
 * @throws Error after the time limit, one minute by default.
 * @example
 * await until('the job to end', async () => (await statusOf(job)) === 'processed');
 */
export async function until<Result>(
  ...args:
    | [condition: Condition<Result>]
    | [description: string, condition: Condition<Result>, limitMs?: number]
): Promise<Result> {
  const [description, condition, limitMs = DEFAULT_LIMIT_MS] =
    args.length === 1 ? ['the condition', args[0]] : args;
  const deadline = performance.now() + limitMs;
  for (;;) {
    const startedAt = performance.now();
    const result = await condition();
    if (result !== undefined && result !== false) return result;
    if (performance.now() > deadline) {
      throw new Error(`Timed out waiting for ${description} after ${limitMs} ms`);
    }
    const pauseMs = PAUSE_FACTOR * (performance.now() - startedAt);
    await sleep(Math.min(MAX_PAUSE_MS, Math.max(MIN_PAUSE_MS, pauseMs)));
  }
}
