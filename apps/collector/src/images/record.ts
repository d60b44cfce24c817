import type { Kysely } from 'kysely';
import { mapParallel } from '../async/map-parallel.ts';
import type { Tables } from '../tables.ts';
import type { Describe } from './describe.ts';
import { AT_ONCE, type ListingJob } from './listing-job.ts';
import { eventOf, type ListingPicture, toOutcomes } from './listing-picture.ts';
import type { ImageEvent, ImageOutcome } from './outcome.ts';
import { findStoredBefore, replaceImages } from './repository.ts';
import type { ImageStore } from './store/store.ts';

/**
 * How often the pictures of a listing are gathered: again only where one of them was removed just then, as
 * one that no listing has.
 */
const MAX_TURNS = 3;

/**
 * Records what became of a listing's pictures, and has the new ones described. From then on none of them
 * is removed; one that was removed between its look-up and that moment is gathered again.
 * @param gather Stores the pictures, unless they are stored already.
 */
export type RecordPictures = (
  job: ListingJob,
  gather: () => Promise<readonly ListingPicture[]>,
  options: { cameAlong: boolean },
) => Promise<ImageOutcome[]>;

/**
 * Makes the function; a description that fails leaves what is recorded, and the next attempt goes on from there.
 * @param deps.observe Told of each picture.
 */
export function createRecordPictures(deps: {
  db: Kysely<Tables>;
  store: Pick<ImageStore, 'has'>;
  describe: Describe;
  observe: (event: ImageEvent) => void;
}): RecordPictures {
  const { db, store, describe, observe } = deps;

  return async (job, gather, { cameAlong }) => {
    const { listingId, fence } = job;
    const parallel = cameAlong ? AT_ONCE.uploaded : AT_ONCE.remote;
    for (let turn = 1; turn <= MAX_TURNS; turn += 1) {
      const pictures = await gather();
      const stored = pictures.flatMap(({ result }) => ('image' in result ? [result.image] : []));
      const hashes = [...new Set(stored.map(({ sha256 }) => sha256))];
      const outcomes = toOutcomes(pictures, await findStoredBefore(db, hashes, fence));
      await replaceImages(db, { listingId, outcomes, stored, fence, cameAlong });
      const found = await mapParallel(hashes, parallel, (sha256) => store.has(sha256));
      if (!found.every(Boolean)) continue;
      for (const [index, outcome] of outcomes.entries()) observe(eventOf(outcome, pictures[index]));
      await describe.pictures(job, namesOf(pictures), { parallel, mayWait: !cameAlong });
      return outcomes;
    }
    throw new Error('Pictures were removed again and again while they were recorded');
  };
}

/** What pictures are called, by hash: equal bytes go by their first name, which is set last. */
function namesOf(pictures: readonly ListingPicture[]): Map<string, string> {
  return new Map(
    pictures
      .toReversed()
      .flatMap(({ name, result }) => ('image' in result ? [[result.image.sha256, name]] : [])),
  );
}
