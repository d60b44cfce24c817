import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { text } from 'node:stream/consumers';
import { after } from 'node:test';

/** A request as it reached the server. */
export type Received = {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: unknown;
};

/** What the server plays: a response, or a broken connection. */
export type Played =
  | { status?: number; headers?: Record<string, string>; body?: unknown }
  | 'reset';

/** Starts a server on a free port of the loopback that answers as it is told; it ends with the tests. */
export async function startServer(answer: (request: Received) => Played | Promise<Played>) {
  const server = createServer((incoming, response) => {
    void (async () => {
      const content = await text(incoming);
      const played = await answer({
        method: incoming.method ?? '',
        path: incoming.url ?? '',
        headers: incoming.headers,
        body: content === '' ? undefined : JSON.parse(content),
      });
      if (played === 'reset') {
        response.socket?.resetAndDestroy();
        return;
      }
      const { status = 200, headers = {}, body } = played;
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(typeof body === 'string' ? body : JSON.stringify(body));
    })();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  after(() => {
    server.close();
    server.closeAllConnections();
  });
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return { url: `http://127.0.0.1:${address.port}` };
}

/** An address at which nothing listens. */
export async function closedAddress(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  server.close();
  await once(server, 'close');
  return `http://127.0.0.1:${address.port}`;
}
