import { setTimeout as sleep } from 'node:timers/promises';

const PATIENCE_MS = 20_000;

/** Waits until the condition gives something, and gives that. Fails when it takes too long. */
export async function until<Result>(
  what: string,
  condition: () => Promise<Result | undefined | false> | Result | undefined | false,
): Promise<Result> {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const result = await condition();
    if (result !== undefined && result !== false) return result;
    if (Date.now() > deadline) throw new Error(`Not within ${PATIENCE_MS} ms: ${what}`);
    await sleep(5);
  }
}
