import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { atEnd } from './flow.ts';
import { listen } from './network.ts';

/** A request as it reached the server. */
export type ReceivedRequest = {
  method: string;
  /** With its query. */
  path: string;
  headers: IncomingHttpHeaders;
  /** As sent. */
  text: string;
  /** The parsed JSON; undefined where there is none. */
  body: unknown;
};

/** A response, or one of the ways to have none. */
export type Answer =
  | { status?: number; headers?: Record<string, string>; body?: unknown }
  /** Closes the connection with a reset before anything is answered. */
  | 'reset'
  /** Sends headers and half of a body, then breaks the connection. */
  | 'cut'
  /** Never answers. */
  | 'silence'
  /** Anything else. */
  | { write: (response: ServerResponse) => void };

/** A scripted server on a free port of the loopback. */
export type TestServer = {
  url: string;
  /** All requests that have reached it, in order. */
  requests: ReceivedRequest[];
  /** How many connections to it are open. */
  connections: () => Promise<number>;
  close: () => Promise<void>;
};

/** Starts a server that answers, or lies, as the test says; it ends with the file's tests. */
export async function startServer(
  answer: (request: ReceivedRequest) => Answer | Promise<Answer>,
): Promise<TestServer> {
  const requests: ReceivedRequest[] = [];
  const server = createServer((incoming, response) => {
    void (async () => {
      const request = await receive(incoming);
      requests.push(request);
      perform(await answer(request), response);
    })();
  });
  const port = await listen(server);
  const close = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  };
  atEnd(close);
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    connections: promisify(server.getConnections.bind(server)),
    close,
  };
}

async function receive(incoming: IncomingMessage): Promise<ReceivedRequest> {
  const { method = '', url: path = '', headers } = incoming;
  const content = await text(incoming);
  return { method, path, headers, text: content, body: parsed(content) };
}

function parsed(content: string): unknown {
  try {
    return JSON.parse(content);
  } catch {
    return undefined;
  }
}

function perform(answer: Answer, response: ServerResponse): void {
  if (answer === 'silence') return;
  if (answer === 'reset') {
    response.socket?.resetAndDestroy();
    return;
  }
  if (answer === 'cut') {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
    response.write('{"half":', () => response.socket?.resetAndDestroy());
    return;
  }
  if ('write' in answer) return answer.write(response);
  const { status = 200, headers = {}, body } = answer;
  const isText = typeof body === 'string';
  const type = isText ? 'text/html' : 'application/json';
  response.writeHead(status, { 'content-type': type, ...headers });
  response.end(isText ? body : JSON.stringify(body));
}
