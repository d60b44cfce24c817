import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';

/** A connection to a server, past every rule of an HTTP client. */
export async function openSocket(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  await once(socket, 'connect');
  return socket;
}

/** The head of a request with a body, as bytes. */
export function requestHead(path: string, headers: Record<string, string | number>): string {
  const lines = Object.entries({ host: 'localhost:1', ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  return `POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n`;
}

/** Sends a request as it is and gives the status of its answer, and the body. */
export async function exchange(
  url: string,
  path: string,
  { type, body }: { type: string; body: Uint8Array },
): Promise<{ status: number; text: string }> {
  const headers = { 'content-type': type, 'content-length': body.length, connection: 'close' };
  return exchangeBytes(url, Buffer.concat([Buffer.from(requestHead(path, headers)), body]));
}

/** Sends bytes, which ask the server to hang up when it has answered, and gives the answer's status and all of it. */
export async function exchangeBytes(
  url: string,
  bytes: Uint8Array,
): Promise<{ status: number; text: string }> {
  const socket = await openSocket(url);
  // The server may answer and hang up before all is sent.
  socket.on('error', () => undefined);
  socket.write(bytes);
  const text = (await buffer(socket)).toString();
  return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]), text };
}

/** How many files and connections this process has open. */
export async function openDescriptors(): Promise<number> {
  return (await readdir('/proc/self/fd')).length;
}
