import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';

/** Below the ports that systems choose by themselves: Linux from 32768, others from 49152. */
const PORTS = { from: 20_000, below: 32_000 };
const MAX_TRIES = 100;

/**
 * Returns a port on which nothing listens, for a server whose address must be known before it listens. No other process
 * gets it meanwhile by asking for any port.
 * @throws Error where none of a hundred is free.
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    const port = randomInt(PORTS.from, PORTS.below);
    if (await isFree(port)) return port;
  }
  throw new Error(`None of ${MAX_TRIES} ports below ${PORTS.below} is free`);
}

async function isFree(port: number): Promise<boolean> {
  // On every address of this machine, since `localhost` may be either of two.
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

/** Returns the URL of a port on which nothing listens. */
export async function unusedUrl(): Promise<string> {
  return `http://127.0.0.1:${await freePort()}`;
}

/** Makes a server listen on a free port of the loopback, and returns the port. */
export async function listen(server: Pick<Server, 'listen' | 'address' | 'on'>): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.on('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  return (server.address() as AddressInfo).port;
}

/** Opens a connection to a server, past every rule of an HTTP client. */
export async function openSocket(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  await once(socket, 'connect');
  return socket;
}

/**
 * Sends bytes and reads until the server hangs up; a request has to ask for that with `connection: close`.
 * @returns The status of the answer, NaN where it is not HTTP, and all of its text.
 */
export async function exchange(
  url: string,
  bytes: Uint8Array | string,
): Promise<{ status: number; text: string }> {
  const socket = await openSocket(url);
  // The server may answer and hang up before all is sent.
  socket.on('error', () => undefined);
  socket.write(bytes);
  const text = (await buffer(socket)).toString();
  return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]), text };
}

/** Counts the files and connections that this process has open. */
export async function openDescriptors(): Promise<number> {
  return (await readdir('/proc/self/fd')).length;
}
