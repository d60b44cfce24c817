import { setTimeout as sleep } from 'node:timers/promises';
import { constantAnswers, LISTING, startModelServer, embeddedTexts } from '@oselya/model/testing';
import { answerParent } from '../../process/child.ts';

/** Requests that have come so far, and the most texts that one of them had to embed. */
export type Counts = { chat: number; embed: number; mostTexts: number };

/** The questions that the model server's process answers. */
export type ModelServer = {
  /** Starts to serve and gives the address for MODEL_BASE_URL. */
  start: (settings: { answerMs: number; dimensions: number }) => Promise<string>;
  /** What came since it was asked last. */
  counts: () => Counts;
};

const nothing = (): Counts => ({ chat: 0, embed: 0, mostTexts: 0 });
let counts = nothing();

/** Who asks about a listing drops what is about a picture, and the other way round. */
const LISTING_AND_PICTURE = {
  ...LISTING,
  description: 'A room.',
  room_type: 'bedroom',
  quality: 'good',
};

/** Serves a model that takes its time and reads the same out of every listing, and sees it on every picture. */
async function start({ answerMs, dimensions }: { answerMs: number; dimensions: number }) {
  const vector = Array.from({ length: dimensions }, (_, nth) => Math.sin(nth + 1));
  const answer = constantAnswers({ listing: LISTING_AND_PICTURE, vectorOf: () => vector });
  const { url } = await startModelServer(async (request) => {
    await sleep(answerMs);
    const texts = embeddedTexts(request);
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
