import { setTimeout as sleep } from 'node:timers/promises';
import {
  createConstantHandler,
  LISTING,
  startModelServer,
  extractEmbeddedTexts,
} from '@oselya/model/testing';
import { serveMethods } from '../../process/child.ts';

export type Counts = {
  /** Number of chat requests. */
  chat: number;
  /** Number of embedding requests. */
  embed: number;
  /** Maximum number of texts in one embedding request. */
  maxTextCount: number;
};

/** Methods of the model server process. */
export type ModelServer = {
  /** Starts the server and returns the value of MODEL_BASE_URL. */
  start: (settings: { answerMs: number; dimensions: number }) => Promise<string>;
  /** Returns the counts since the last call. */
  counts: () => Counts;
};

const createCounts = (): Counts => ({ chat: 0, embed: 0, maxTextCount: 0 });
let counts = createCounts();

/** Answer to requests about listings and images. The pipeline ignores the fields that a request did not ask for. */
const LISTING_AND_IMAGE = {
  ...LISTING,
  description: 'A room.',
  room_type: 'bedroom',
  quality: 'good',
};

/** Serves a model with a fixed delay and the same answer for every listing and image. */
async function start({ answerMs, dimensions }: { answerMs: number; dimensions: number }) {
  const vector = Array.from({ length: dimensions }, (_, index) => Math.sin(index + 1));
  const answer = createConstantHandler({ listing: LISTING_AND_IMAGE, createVector: () => vector });
  const { url } = await startModelServer(async (request) => {
    await sleep(answerMs);
    const texts = extractEmbeddedTexts(request);
    if (texts === undefined) {
      counts.chat += 1;
    } else {
      counts.embed += 1;
      counts.maxTextCount = Math.max(counts.maxTextCount, texts.length);
    }
    return answer(request);
  });
  return url;
}

serveMethods({
  start,
  counts() {
    const result = counts;
    counts = createCounts();
    return result;
  },
} satisfies ModelServer);
