// What tests of several workspaces share. Nothing of the product imports it.

import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

export { compileAll } from './http/late.ts';

/** Below what systems give to whoever asks for any port: Linux from 32768, others from 49152. */
const PORTS = { from: 20_000, below: 32_000 };
const MOST_TRIES = 100;

/**
 * A port on which nobody listens, for what has to know its address before it listens. Nobody else is given it
 * meanwhile by asking for any.
 * @throws Error where none of a hundred is free.
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < MOST_TRIES; tries += 1) {
    const port = randomInt(PORTS.from, PORTS.below);
    if (await isFree(port)) return port;
  }
  throw new Error(`None of ${MOST_TRIES} ports below ${PORTS.below} is free`);
}

async function isFree(port: number): Promise<boolean> {
  // On every address of this machine, for `localhost` may be either of two.
  const server = createServer().listen(port);
  try {
    await once(server, 'listening');
  } catch {
    return false;
  }
  server.close();
  await once(server, 'close');
  return true;
}
