import { request } from 'node:http';
import type { Socket } from 'node:net';
import { maskCredentials } from '../credentials.ts';

/** What a server answered; where it redirects to is only told, never asked. */
export type Answer = {
  status: number;
  redirectsTo: string | null;
};

/**
 * Asks for the head of a page over a connection that is there.
 * @param host As the record writes it.
 * @throws What the connection throws.
 */
export function askHead(
  socket: Socket,
  { host, url, signal }: { host: string; url: URL; signal: AbortSignal },
): Promise<Answer> {
  return new Promise((done, fail) => {
    const asked = request({
      method: 'HEAD',
      path: `${url.pathname}${url.search}`,
      headers: {
        host: url.port === '' ? host : `${host}:${url.port}`,
        'user-agent': 'oselya-inventory',
        connection: 'close',
      },
      createConnection: () => socket,
      signal,
    });
    asked.once('response', (response) => {
      response.resume();
      const { location } = response.headers;
      done({
        status: response.statusCode ?? 0,
        redirectsTo: location === undefined ? null : maskCredentials(location),
      });
    });
    asked.once('error', fail);
    asked.end();
  });
}
