import { setTimeout as sleep } from 'node:timers/promises';
import { BenchError } from '../bench-error.ts';

const TIMEOUT_MS = 60_000;

/**
 * Waits until the condition gives something, and gives that.
 * @throws BenchError when it takes longer than a minute.
 */
export async function waitUntil<Result>(
  what: string,
  condition: () => Promise<Result | false>,
): Promise<Result> {
  const deadline = Date.now() + TIMEOUT_MS;
  for (;;) {
    const result = await condition();
    if (result !== false) return result;
    if (Date.now() > deadline) throw new BenchError(`not within a minute: ${what}`);
    await sleep(20);
  }
}
