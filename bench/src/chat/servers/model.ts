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
type Pace = { tokens: number; perSecond: number };

let pace: Pace = { tokens: 0, perSecond: 1 };

const methods = {
  /** Starts a model server that answers with stamped tokens. Returns MODEL_BASE_URL. */
  async start(): Promise<string> {
    const { url } = await startModelServer(({ body }): ScriptedResponse =>
      asksForTitle(body)
        ? createStreamedResponse([createChunk({ content: 'Title' }), END])
        : createStreamedResponse([write, END]),
    );
    return url;
  },
  /** Sets speed and length of the next answers. */
  setPace(next: Pace): void {
    pace = next;
  },
};
export type ModelServer = typeof methods;
serveMethods(methods);

const END = createChunk({}, { finishReason: 'stop' });

/** A late token is written at once, and the next ones when they are due: the rate holds. */
async function write(response: ServerResponse): Promise<void> {
  const { tokens, perSecond } = pace;
  const begun = performance.now();
  for (let nth = 0; nth < tokens && !response.destroyed; nth += 1) {
    const waitMs = begun + (nth * 1000) / perSecond - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    writeEvent(response, createChunk({ content: stampToken() }));
  }
}

/** The assistant asks for a session's title beside its first answer. */
function asksForTitle(body: unknown): boolean {
  return JSON.stringify(body).includes('a title of at most');
}
