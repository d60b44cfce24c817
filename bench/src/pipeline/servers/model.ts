import { setTimeout as sleep } from 'node:timers/promises';
import {
  createConstantHandler,
  LISTING,
  startModelServer,
  extractEmbeddedTexts,
} from '@oselya/model/testing';
import { serveMethods } from '../../process/child.ts';

/** Number of requests, and the maximum number of texts in one embedding request. */
export type Counts = { chat: number; embed: number; mostTexts: number };

/** Methods of the model server process. */
export type ModelServer = {
  /** Starts the server and returns MODEL_BASE_URL. */
  start: (settings: { answerMs: number; dimensions: number }) => Promise<string>;
  /** Returns the counts since the last call. */
  counts: () => Counts;
};

const nothing = (): Counts => ({ chat: 0, embed: 0, mostTexts: 0 });
let counts = nothing();

/** Answer for listings and images; each request ignores the fields of the other kind. */
const LISTING_AND_IMAGE = {
  ...LISTING,
  description: 'A room.',
  room_type: 'bedroom',
  quality: 'good',
};

/** Serves a model with a fixed delay and the same answer for every listing and image. */
async function start({ answerMs, dimensions }: { answerMs: number; dimensions: number }) {
  const vector = Array.from({ length: dimensions }, (_, nth) => Math.sin(nth + 1));
  const answer = createConstantHandler({ listing: LISTING_AND_IMAGE, vectorOf: () => vector });
  const { url } = await startModelServer(async (request) => {
    await sleep(answerMs);
    const texts = extractEmbeddedTexts(request);
    if (texts === undefined) {
      counts.chat += 1;
    } else {
      counts.embed += 1;
      counts.mostTexts = Math.max(counts.mostTexts, texts.length);
    }
    return answer(request);
  });
  return url;
}

serveMethods({
  start,
  counts() {
    const result = counts;
    counts = nothing();
    return result;
  },
} satisfies ModelServer);
