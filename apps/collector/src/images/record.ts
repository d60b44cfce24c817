import type { ModelCallEvent } from '@oselya/model';
import type { Kysely } from 'kysely';
import { mapParallel } from '../async/map-parallel.ts';
import type { Tables } from '../database/tables.ts';
import type { Fence } from '../queue/index.ts';
import { describeImages, type Describer } from './describe.ts';
import { eventOf, type ListingPicture, toOutcomes } from './listing-picture.ts';
import type { ImageEvent, ImageOutcome } from './outcome.ts';
import { findImages, replaceImages } from './repository.ts';
import type { ImageStore } from './store/store.ts';
import type { Thumbnails } from './thumbnails.ts';

/**
 * How many pictures of one listing are stored, or described, at once: those that are fetched, and those that
 * came along. Specification 001, Limits.
 */
export const AT_ONCE = { remote: 3, uploaded: 1 } as const;

/**
 * How often the pictures of a listing are gathered: again only where one of them was removed just then, as
 * one that no listing has.
 */
const MAX_TURNS = 3;

/** The work on one listing's pictures. */
export type ListingJob = {
  listingId: number;
  fence: Fence;
  signal: AbortSignal;
  /** Told of each request to the model. */
  observe?: (event: ModelCallEvent) => void;
};

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

/** @param deps.observe Told of each picture. */
export function createRecordPictures(deps: {
  db: Kysely<Tables>;
  store: Pick<ImageStore, 'has'>;
  thumbnails: Thumbnails;
  model: Describer;
  observe: (event: ImageEvent) => void;
}): RecordPictures {
  const { db, store, thumbnails, model, observe } = deps;

  function describe(
    { fence, signal, observe: onModelCall }: ListingJob,
    pictures: readonly ListingPicture[],
    parallel: number,
  ): Promise<void> {
    // Equal bytes go by their first name, which is set last.
    const hints = new Map(
      pictures
        .toReversed()
        .flatMap(({ name, result }) => ('image' in result ? [[result.image.sha256, name]] : [])),
    );
    const job = { hints, fence, signal, observe: onModelCall };
    return describeImages({ db, thumbnails, model, parallel }, job);
  }

  return async (job, gather, { cameAlong }) => {
    const { listingId, fence } = job;
    const parallel = cameAlong ? AT_ONCE.uploaded : AT_ONCE.remote;
    let before: ReadonlySet<string> | undefined;
    for (let turn = 1; turn <= MAX_TURNS; turn += 1) {
      const pictures = await gather();
      const stored = pictures.flatMap(({ result }) => ('image' in result ? [result.image] : []));
      const hashes = [...new Set(stored.map(({ sha256 }) => sha256))];
      before ??= new Set((await findImages(db, hashes)).keys());
      const outcomes = toOutcomes(pictures, before);
      await replaceImages(db, { listingId, outcomes, stored, fence, cameAlong });
      const found = await mapParallel(hashes, parallel, (sha256) => store.has(sha256));
      if (!found.every(Boolean)) continue;
      for (const [index, outcome] of outcomes.entries()) observe(eventOf(outcome, pictures[index]));
      await describe(job, pictures, parallel);
      return outcomes;
    }
    throw new Error('Pictures were removed again and again while they were recorded');
  };
}
