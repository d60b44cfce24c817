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
 * Outcome of describing the images of a listing again. `described`: every image has a new description, or a record of
 * why the model rejected it. `left`: the payload was removed or failed, or a newer payload is in the queue. `failed`:
 * the payload and the remaining images are unchanged.
 */
export type ImageReprocessOutcome = { listingId: number } & (
  | { outcome: 'described' | 'left' }
  | { outcome: 'failed'; error: Error }
);

/** Service behind `oselya reprocess --pictures`. */
export type ReprocessImages = ReturnType<typeof createReprocessImages>;

/**
 * Creates the service that describes images again with the current prompt and model. The images of a listing go
 * through the pipeline under a claim of its last payload, which stays completed.
 * @param deps.parallel Number of listings to process at a time.
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
    /** Returns the number of selected listings with images that lack a description by the current prompt and model. */
    count: async (selection: ListingSelection): Promise<number> =>
      describer === undefined ? 0 : countWithImages(db, selection, describer),

    /**
     * Describes the outdated images of the selected listings, in ID order. A later run continues an interrupted one.
     * @param options.signal Stops the run after the work in progress.
     * @throws ModelError if a failure is systemic, or after ten consecutive failures.
     */
    describe: (
      selection: ListingSelection,
      { limit, signal }: { limit: number; signal: AbortSignal },
    ): AsyncGenerator<ImageReprocessOutcome> =>
      walkListings({
        after: selection.after,
        limit,
        parallel,
        signal,
        list: async (after, count) =>
          describer === undefined
            ? []
            : listWithImages(db, { ...selection, after }, describer, count),
        work: describeOne,
      }),
  };
}
