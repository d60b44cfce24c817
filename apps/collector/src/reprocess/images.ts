import type { Kysely } from 'kysely';
import { toError } from '../async/group-commit.ts';
import type { ImageService } from '../images/image-service.ts';
import { claimForReprocessing } from '../queue/claim.ts';
import type { JobRunner } from '../queue/job-runner.ts';
import { createClaimantName } from '../queue/worker.ts';
import type { Tables } from '../tables.ts';
import type { ReprocessInput } from './keep-completed.ts';
import { type ListingSelection, countListings, findListings } from './repository.ts';
import { walkListings } from './walk-listings.ts';

/**
 * Outcome of describing the images of a listing again. `described`: every image has a new
 * description or the reason of a rejection. `left`: the payload was removed or failed, or a newer
 * payload is unfinished. `failed`: the payload and the remaining images are unchanged.
 */
export type ImageReprocessOutcome = { listingId: number } & (
  | { outcome: 'described' | 'left' }
  | { outcome: 'failed'; error: Error }
);

/** Service behind `oselya reprocess --pictures`. */
export type ReprocessImages = ReturnType<typeof createReprocessImages>;

/**
 * Creates the service that describes images again with the current prompt and model. The images of
 * a listing go through the pipeline under a claim of its last payload, which stays completed.
 * @param deps.parallel Number of listings to process at a time.
 */
export function createReprocessImages(deps: {
  db: Kysely<Tables>;
  images: Pick<ImageService, 'descriptionVersion'>;
  jobs: Pick<JobRunner<ReprocessInput>, 'run'>;
  leaseMs: number;
  parallel: number;
}) {
  const { db, images, jobs, leaseMs, parallel } = deps;
  const outdatedImages = images.descriptionVersion;
  const claimant = { worker: createClaimantName('reprocess'), leaseMs };

  async function describeOne(row: { id: number; raw_id: number }): Promise<ImageReprocessOutcome> {
    const { id: listingId, raw_id: rawId } = row;
    const ids = { rawId, listingId };
    const job = await claimForReprocessing(db, ids, claimant, { onlyImages: true });
    if (job === undefined) return { listingId, outcome: 'left' };
    let failure: unknown;
    const onFailure = (error: unknown) => (failure = error);
    const input = { before: job.before, describesAgain: true, onFailure };
    const status = await jobs.run(job, { input });
    if (failure === undefined && status === 'completed') {
      return { listingId, outcome: 'described' };
    }
    const error = toError(failure ?? `Its payload is ${status}.`);
    return { listingId, outcome: 'failed', error };
  }

  return {
    /** Returns the number of selected listings with outdated descriptions. */
    count: async (selection: ListingSelection): Promise<number> =>
      outdatedImages === undefined ? 0 : countListings(db, { ...selection, outdatedImages }),

    /**
     * Describes the outdated images of the selected listings, in ID order. A later run continues an
     * interrupted one.
     * @param options.signal Stops the run after the work in progress.
     * @throws ModelError if a failure is systemic, or after ten consecutive failures.
     */
    describe: (
      selection: ListingSelection,
      { limit, signal }: { limit: number; signal: AbortSignal },
    ): AsyncGenerator<ImageReprocessOutcome> =>
      walkListings({
        after: selection.after,
        limit: outdatedImages === undefined ? 0 : limit,
        parallel,
        signal,
        list: (after, count) => findListings(db, { ...selection, outdatedImages, after }, count),
        work: describeOne,
      }),
  };
}
