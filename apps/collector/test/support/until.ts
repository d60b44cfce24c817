import { setTimeout as sleep } from 'node:timers/promises';

/** Whoever waits so long waits for what never comes, on a busy machine too. */
const PATIENCE_MS = 60_000;

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
    const result = await condition();
    if (result !== undefined && result !== false) return result;
    if (Date.now() > deadline) throw new Error(`Not within ${patienceMs} ms: ${what}`);
    await sleep(5);
  }
}
