import { setTimeout as sleep } from 'node:timers/promises';
import {
  createConstantHandler,
  LISTING,
  startModelServer,
  extractEmbeddedTexts,
} from '@oselya/model/testing';
import { answerParent } from '../../process/child.ts';

/** Requests that have come so far, and the most texts that one of them had to embed. */
export type Counts = { chat: number; embed: number; mostTexts: number };

/** The questions that the model server's process answers. */
export type ModelServer = {
  /** Starts to serve and gives the address for MODEL_BASE_URL. */
  start: (settings: { answerMs: number; dimensions: number }) => Promise<string>;
  /** Requests since the last call. */
  counts: () => Counts;
};

const nothing = (): Counts => ({ chat: 0, embed: 0, mostTexts: 0 });
let counts = nothing();

/** A request about a listing ignores fields of images, and vice versa. */
const LISTING_AND_PICTURE = {
  ...LISTING,
  description: 'A room.',
  room_type: 'bedroom',
  quality: 'good',
};

/** Serves a model with a fixed delay and the same answer for every listing and image. */
async function start({ answerMs, dimensions }: { answerMs: number; dimensions: number }) {
  const vector = Array.from({ length: dimensions }, (_, nth) => Math.sin(nth + 1));
  const answer = createConstantHandler({ listing: LISTING_AND_PICTURE, vectorOf: () => vector });
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

answerParent({
  start,
  counts() {
    const now = counts;
    counts = nothing();
    return now;
  },
} satisfies ModelServer);
