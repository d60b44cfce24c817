import type { TestContext } from 'node:test';
import {
  startModelServer,
  type Answer,
  type RequestHandler as PlayRequest,
  type ReceivedRequest,
} from '../src/testing.ts';

export type { Answer, ReceivedRequest };

/** An answer, or how to make it; the promise lets a test hold a request. */
export type RequestHandler = Answer | PlayRequest;

/** A model server that plays a script. */
export type ScriptedServer = {
  /** The address for `MODEL_BASE_URL`. */
  baseUrl: string;
  /** Every request that has reached the server, in order. */
  requests: ReceivedRequest[];
  /** Replaces the script: one entry a request, the last one again and again. */
  play(...script: RequestHandler[]): void;
};

/** Starts a scripted server; it ends with the test. */
export async function startScriptedServer(
  t: TestContext,
  ...first: RequestHandler[]
): Promise<ScriptedServer> {
  const requests: ReceivedRequest[] = [];
  let script = first;
  const server = await startModelServer((request) => {
    requests.push(request);
    const play = script.length > 1 ? script.shift() : script[0];
    if (play === undefined) throw new Error('The script of the server is empty.');
    return typeof play === 'function' ? play(request) : play;
  });
  t.after(server.close);
  return {
    baseUrl: server.url,
    requests,
    play: (...next) => {
      script = next;
    },
  };
}
