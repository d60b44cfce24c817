import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type ScriptedResponse,
  createChunk,
  startModelServer,
  createStreamedResponse,
  writeEvent,
} from '@oselya/model/testing';
import { serveMethods } from '../../process/child.ts';
import { stampToken } from '../stamp.ts';

/** Speed and length of an answer. */
type Pace = { tokens: number; tokensPerSecond: number };

let pace: Pace = { tokens: 0, tokensPerSecond: 1 };

const methods = {
  /** Starts a model server that streams stamped tokens. Returns the value of MODEL_BASE_URL. */
  async start(): Promise<string> {
    const { url } = await startModelServer(({ body }): ScriptedResponse =>
      isTitleRequest(body)
        ? createStreamedResponse([createChunk({ content: 'Title' }), END])
        : createStreamedResponse([writeTokens, END]),
    );
    return url;
  },
  /** Sets the speed and length of the next answers. */
  setPace(next: Pace): void {
    pace = next;
  },
};
export type ModelServer = typeof methods;
serveMethods(methods);

const END = createChunk({}, { finishReason: 'stop' });

/** Writes tokens on a fixed schedule, so that a late token does not delay the next ones. */
async function writeTokens(response: ServerResponse): Promise<void> {
  const { tokens, tokensPerSecond } = pace;
  const startedAt = performance.now();
  for (let index = 0; index < tokens && !response.destroyed; index += 1) {
    const waitMs = startedAt + (index * 1000) / tokensPerSecond - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    writeEvent(response, createChunk({ content: stampToken() }));
  }
}

/** Returns whether a request asks for a session's title. */
function isTitleRequest(body: unknown): boolean {
  return JSON.stringify(body).includes('a title of at most');
}
