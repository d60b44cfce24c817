import type { Kysely } from 'kysely';
import { toError } from '../async/group-commit.ts';
import type { ImageService } from '../images/image-service.ts';
import { claimForReprocessing } from '../queue/claim.ts';
import type { InlineJobs } from '../queue/inline.ts';
import { createClaimantName } from '../queue/worker.ts';
import type { Tables } from '../tables.ts';
import type { ReprocessInput } from './keep-completed.ts';
import { walkListings } from './walk-listings.ts';
import { type ListingSelection, countWithImages, listWithImages } from './repository.ts';

/**
 * The outcome for a listing whose images are described again. `described`: all are, or the model refused some, which
 * their records say. `left`: its payload was removed or failed, or a newer one is in the queue. `failed`: the payload
 * and the images without a new description are as they were.
 */
export type ImageReprocessOutcome = { listingId: number } & (
  | { outcome: 'described' | 'left' }
  | { outcome: 'failed'; error: Error }
);

/** The work of `oselya reprocess --pictures`. */
export type ReprocessImages = ReturnType<typeof createReprocessImages>;

/**
 * Creates the work that describes images again with the current prompt and model. The images of a listing go through
 * the pipeline under a claim of its last payload, which stays completed whatever happens.
 * @param deps.parallel How many listings at once.
 */
export function createReprocessImages(deps: {
  db: Kysely<Tables>;
  images: Pick<ImageService, 'descriptionVersion'>;
  jobs: Pick<InlineJobs<ReprocessInput>, 'run'>;
  leaseMs: number;
  parallel: number;
}) {
  const { db, images, jobs, leaseMs, parallel } = deps;
  const describer = images.descriptionVersion;
  const worker = createClaimantName('reprocess');

  async function describeOne(row: {
    id: number;
    raw_id: number | null;
  }): Promise<ImageReprocessOutcome> {
    const { id: listingId, raw_id: rawId } = row;
    const claimant = { worker, leaseMs };
    const job =
      rawId === null
        ? undefined
        : await claimForReprocessing(db, { rawId, listingId }, claimant, { onlyImages: true });
    if (job === undefined) return { listingId, outcome: 'left' };
    let failure: unknown;
    const onFailure = (error: unknown) => (failure = error);
    const outcome = await jobs.run(job, {
      input: { before: job.before, describesAgain: true, onFailure },
    });
    if (failure === undefined && outcome === 'completed')
      return { listingId, outcome: 'described' };
    const error = toError(failure ?? `Its payload is ${outcome}.`);
    return { listingId, outcome: 'failed', error };
  }

  return {
    /** Returns the number of chosen listings with images of another prompt or model, or without a description. */
    count: async (choice: ListingSelection): Promise<number> =>
      describer === undefined ? 0 : countWithImages(db, choice, describer),

    /**
     * Describes these images in the order of the listings' ids. A later run continues one that ended.
     * @param options.signal Ends it; work in progress is completed.
     * @throws ModelError as `walkListings`.
     */
    describe: (
      choice: ListingSelection,
      { limit, signal }: { limit: number; signal: AbortSignal },
    ): AsyncGenerator<ImageReprocessOutcome> =>
      walkListings({
        after: choice.after,
        limit,
        parallel,
        signal,
        list: async (after, count) =>
          describer === undefined ? [] : listWithImages(db, { ...choice, after }, describer, count),
        work: describeOne,
      }),
  };
}
