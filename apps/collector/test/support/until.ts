import { setTimeout as sleep } from 'node:timers/promises';

const PATIENCE_MS = 20_000;

/**
 * Waits until the condition gives something, and gives that. Fails when it takes too long, 20 s unless
 * told.
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
