import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { listen } from './network.ts';

/** Request that the server received. */
export type ReceivedRequest = {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  text: string;
  /** Parsed JSON body. Undefined if the body is not JSON. */
  body: unknown;
};

/** Scripted response, or a scripted failure. */
export type ScriptedResponse =
  | { status?: number; headers?: Record<string, string>; body?: unknown }
  /** Resets the connection before a response. */
  | 'reset'
  /** Sends the headers and a part of the body, then resets the connection. */
  | 'cut'
  /** Never responds. */
  | 'silence'
  /** Writes a custom response. */
  | { write: (response: ServerResponse) => void };

/**
 * Starts a server with scripted responses on a free loopback port.
 * @param handle Returns the response to a request.
 */
export async function openServer(
  handle: (request: ReceivedRequest) => ScriptedResponse | Promise<ScriptedResponse>,
) {
  const server = createServer((incoming, response) => {
    void (async () => {
      sendResponse(await handle(await receiveRequest(incoming)), response);
    })();
  });
  const port = await listen(server);
  const close = async (): Promise<void> => {
    if (!server.listening) return;
    const closeEvent = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closeEvent;
  };
  return {
    url: `http://127.0.0.1:${port}`,
    connections: promisify(server.getConnections.bind(server)),
    close,
  };
}

async function receiveRequest(incoming: IncomingMessage): Promise<ReceivedRequest> {
  const { method = '', url: path = '', headers } = incoming;
  const content = await text(incoming);
  return { method, path, headers, text: content, body: parseBody(content) };
}

function parseBody(content: string): unknown {
  try {
    return JSON.parse(content);
  } catch {
    return undefined;
  }
}

function sendResponse(script: ScriptedResponse, response: ServerResponse): void {
  if (script === 'silence') return;
  if (script === 'reset') {
    response.socket?.resetAndDestroy();
    return;
  }
  if (script === 'cut') {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
    response.write('{"half":', () => response.socket?.resetAndDestroy());
    return;
  }
  if ('write' in script) return script.write(response);
  const { status = 200, headers = {}, body } = script;
  const isText = typeof body === 'string';
  const contentType = isText ? 'text/html' : 'application/json';
  response.writeHead(status, { 'content-type': contentType, ...headers });
  response.end(isText ? body : JSON.stringify(body));
}
