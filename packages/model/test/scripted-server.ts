import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import type { TestContext } from 'node:test';

/** A request as it reached the server. */
export interface ReceivedRequest {
  method: string;
  path: string;
  headers: IncomingMessage['headers'];
  /** The parsed JSON body; null for requests without one. */
  body: unknown;
}

/** What the server plays: a response, or one of the ways in which there is none. */
export type Answer =
  | { status?: number; headers?: Record<string, string>; body: unknown }
  /** Closes the connection with a reset before anything is answered. */
  | 'reset'
  /** Sends the headers and half of a body, then breaks the connection. */
  | 'cut'
  /** Never answers. */
  | 'silence';

/** An answer, or how to make it; the promise lets a test hold a request. */
export type Play = Answer | ((request: ReceivedRequest) => Answer | Promise<Answer>);

/** A model server that plays a script. */
export interface ScriptedServer {
  /** The address for `MODEL_BASE_URL`. */
  baseUrl: string;
  /** Every request that has reached the server, in order. */
  requests: ReceivedRequest[];
  /** Replaces the script: one entry a request, the last one again and again. */
  play(...script: Play[]): void;
}

/** Starts a scripted server on a free port of the loopback; it ends with the test. */
export async function startScriptedServer(
  t: TestContext,
  ...first: Play[]
): Promise<ScriptedServer> {
  const requests: ReceivedRequest[] = [];
  let script = first;

  const server = createServer((incoming, response) => {
    void answer(incoming, response);
  });
  const answer = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const request = await receive(incoming);
    requests.push(request);
    const play = script.length > 1 ? script.shift() : script[0];
    if (play === undefined) throw new Error('The script of the server is empty.');
    perform(typeof play === 'function' ? await play(request) : play, response);
  };
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  });

  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null, 'the server listens on no port');
  return {
    baseUrl: `http://127.0.0.1:${address.port}/v1`,
    requests,
    play: (...next) => {
      script = next;
    },
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
  const { status = 200, headers = {}, body } = answer;
  const isText = typeof body === 'string';
  response.writeHead(status, {
    'content-type': isText ? 'text/html' : 'application/json',
    ...headers,
  });
  response.end(isText ? body : JSON.stringify(body));
}
