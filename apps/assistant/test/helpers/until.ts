import { setTimeout as sleep } from 'node:timers/promises';

/** Waits until a condition holds, for 5 s at most. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 500; tries += 1) {
    if (await condition()) return;
    await sleep(10);
  }
  throw new Error('The condition did not come true within 5 s');
}
