import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { PROBE_PREFIX } from '../probes.ts';

/** Request that the server received. */
export type ReceivedRequest = {
  method: string;
  path: string;
  headers: IncomingMessage['headers'];
  /** Parsed JSON body. Null if there is none. */
  body: unknown;
};

/** Scripted response, or a scripted failure. */
export type ScriptedResponse =
  | { status?: number; headers?: Record<string, string>; body: unknown }
  /** Resets the connection before a response. */
  | 'reset'
  /** Sends the headers and a part of the body, then resets the connection. */
  | 'cut'
  /** Never responds. */
  | 'silence'
  /** Writes a custom response. */
  | { write: (response: ServerResponse) => void };

/** Returns the response to a request, possibly later. */
export type RequestHandler = (
  request: ReceivedRequest,
) => ScriptedResponse | Promise<ScriptedResponse>;

/** Fake model server on a free loopback port. */
export type ModelServer = {
  /** Value for `MODEL_BASE_URL`. */
  url: string;
  /** Counts the open connections. */
  connections: () => Promise<number>;
  /** Stops the server and closes its connections. */
  close: () => Promise<void>;
} & AsyncDisposable;

/**
 * Starts a fake model server.
 * @param options.handlesProbes Whether the handler also gets startup probes. By default, they are rejected.
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
  // The address of a TCP server is an object.
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

function perform(answer: ScriptedResponse, response: ServerResponse): void {
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
