import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { PROBE_PREFIX } from '../probes.ts';

/** A request as it reached the server. */
export type ReceivedRequest = {
  method: string;
  path: string;
  headers: IncomingMessage['headers'];
  /** The parsed JSON body; null for requests without one. */
  body: unknown;
};

/** A response, or one of the ways to have none. */
export type Answer =
  | { status?: number; headers?: Record<string, string>; body: unknown }
  /** Closes the connection with a reset before anything is answered. */
  | 'reset'
  /** Sends the headers and half of a body, then breaks the connection. */
  | 'cut'
  /** Never answers. */
  | 'silence'
  /** Anything else. */
  | { write: (response: ServerResponse) => void };

/** Answers a request; a promise holds it. */
export type RequestHandler = (request: ReceivedRequest) => Answer | Promise<Answer>;

/** A server in place of a model server, on a free port of the loopback. */
export type ModelServer = {
  /** For `MODEL_BASE_URL`. */
  url: string;
  /** Counts its open connections. */
  connections: () => Promise<number>;
  /** Ends it and its connections. */
  close: () => Promise<void>;
} & AsyncDisposable;

/**
 * Starts a scripted model server.
 * @param options.handlesProbes Whether the handler answers the probes of a start too; otherwise they are rejected.
 */
export async function startModelServer(
  play: RequestHandler,
  { handlesProbes = false } = {},
): Promise<ModelServer> {
  const server = createServer((incoming, response) => {
    void (async () => {
      const request = await receive(incoming);
      const isRejected = !handlesProbes && JSON.stringify(request.body).includes(PROBE_PREFIX);
      perform(isRejected ? { status: 400, body: {} } : await play(request), response);
    })();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // An address that was listened on by a port is no text.
  const { port } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  };
  const connections = promisify(server.getConnections.bind(server));
  return {
    url: `http://127.0.0.1:${port}/v1`,
    connections,
    close,
    [Symbol.asyncDispose]: close,
  };
}

async function receive(incoming: IncomingMessage): Promise<ReceivedRequest> {
  const body = await text(incoming);
  return {
    method: incoming.method ?? '',
    path: incoming.url ?? '',
    headers: incoming.headers,
    body: body === '' ? null : JSON.parse(body),
  };
}

function perform(answer: Answer, response: ServerResponse): void {
  if (answer === 'silence') return;
  if (answer === 'reset') {
    response.socket?.resetAndDestroy();
    return;
  }
  if (answer === 'cut') {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
    response.write('{"choices":', () => response.socket?.resetAndDestroy());
    return;
  }
  if ('write' in answer) return answer.write(response);
  const { status = 200, headers = {}, body } = answer;
  const isText = typeof body === 'string';
  response.writeHead(status, {
    'content-type': isText ? 'text/html' : 'application/json',
    ...headers,
  });
  response.end(isText ? body : JSON.stringify(body));
}
