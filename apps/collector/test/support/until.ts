import { setTimeout as sleep } from 'node:timers/promises';

/** Whoever waits so long waits for what never comes, on a busy machine too. */
const PATIENCE_MS = 60_000;

const PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 100;
/**
 * A pause is so many times as long as the look before it: what asks the database would else take from the
 * work that it waits for.
 */
const REST = 9;

/**
 * Waits until the condition gives something, and gives that. Fails when it takes too long, a
 * minute unless told.
 */
export async function until<Result>(
  what: string,
  condition: () => Promise<Result | undefined | false> | Result | undefined | false,
  patienceMs = PATIENCE_MS,
): Promise<Result> {
  const deadline = Date.now() + patienceMs;
  for (;;) {
    const began = performance.now();
    const result = await condition();
    if (result !== undefined && result !== false) return result;
    if (Date.now() > deadline) throw new Error(`Not within ${patienceMs} ms: ${what}`);
    const tookMs = performance.now() - began;
    await sleep(Math.min(LONGEST_PAUSE_MS, Math.max(PAUSE_MS, REST * tookMs)));
  }
}
