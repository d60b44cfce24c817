import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 10;

/** Far longer than any condition takes on a busy machine. */
const LIMIT_MS = 20_000;

/** Waits until a condition holds, for at most 20 s by default. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  { limitMs = LIMIT_MS } = {},
): Promise<void> {
  const deadline = Date.now() + limitMs;
  while (Date.now() < deadline) {
    if (await condition()) return;
    await sleep(POLL_MS);
  }
  throw new Error(`The condition did not hold within ${limitMs} ms`);
}
