import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';

/** Range below the ephemeral ports: Linux uses ports from 32768, other systems from 49152. */
const PORT_RANGE = { from: 20_000, below: 32_000 };
const MAX_ATTEMPTS = 100;

/**
 * Finds a free port for a server whose URL must be known before it starts. The port is not ephemeral, so the system
 * does not assign it to another process in the meantime.
 * @throws Error if none of 100 random ports is free.
 */
export async function findFreePort(): Promise<number> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const port = randomInt(PORT_RANGE.from, PORT_RANGE.below);
    if (await isPortFree(port)) return port;
  }
  throw new Error(`None of ${MAX_ATTEMPTS} ports below ${PORT_RANGE.below} is free`);
}

async function isPortFree(port: number): Promise<boolean> {
  // Listens on all addresses, because `localhost` may be an IPv4 or an IPv6 address.
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

/** Returns a URL whose port is not in use. */
export async function findUnusedUrl(): Promise<string> {
  return `http://127.0.0.1:${await findFreePort()}`;
}

/** Starts listening on a free loopback port. Returns the port. */
export async function listen(server: Pick<Server, 'listen' | 'address' | 'on'>): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.on('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  return (server.address() as AddressInfo).port;
}

/** Opens a TCP connection to a server, for tests that bypass an HTTP client. */
export async function openSocket(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  await once(socket, 'connect');
  return socket;
}

/**
 * Sends bytes, and reads until the server closes the connection. A request needs the header `connection: close`.
 * @returns The status of the response (NaN if it is not HTTP) and its whole text.
 */
export async function exchange(
  url: string,
  bytes: Uint8Array | string,
): Promise<{ status: number; text: string }> {
  const socket = await openSocket(url);
  // The server may respond and close the connection before all bytes are sent, which is not a failure.
  socket.on('error', () => undefined);
  socket.write(bytes);
  const text = (await buffer(socket)).toString();
  return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]), text };
}

/** Counts the open file descriptors of this process. Works on Linux only. */
export async function countOpenDescriptors(): Promise<number> {
  return (await readdir('/proc/self/fd')).length;
}
