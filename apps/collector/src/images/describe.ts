import { mapParallel } from '../async/map-parallel.ts';
import { createDescribeOne, type DescribeDeps, descriptionPrompt } from './describe-one.ts';
import { findOutdatedOf, findUndescribed, findUndescribedOf } from './descriptions.sql.ts';
import { AT_ONCE, type ListingJob } from './listing-job.ts';
import type { Asked } from './refusal.ts';
import { createTrialTime } from './trials.ts';

/**
 * Has the vision model describe stored pictures, each for all listings that have it. One that two listings
 * have at the same moment is described for both; the later description is kept. One that the model refuses, that
 * its server fails on while it answers others, or that cannot be decoded any more is recorded with its reason; every
 * other failure of the model propagates, as in all that uses it: then the next attempt goes on with those that are
 * left. Specification 001, Errors; Contract 4, Images; ADR 0017.
 */
export type Describe = {
  /**
   * Those of these pictures that nobody has described, but none that was refused when it was asked for with
   * the same model and prompt.
   * @param hints File name or address by hash.
   * @param options.parallel How many at once.
   * @param options.mayWait Whether a limit of the server may be waited for; nobody who sent a request waits so long.
   * @throws ModelError, LeaseLostError, `signal.reason`.
   */
  pictures(
    job: ListingJob,
    hints: ReadonlyMap<string, string>,
    options: { parallel: number; mayWait: boolean },
  ): Promise<void>;
  /**
   * All of a listing's pictures that have no description, refused ones too.
   * @param options.outdated Those instead that are outdated: described by another model or prompt, or by none.
   * @returns How many.
   * @throws ModelError, LeaseLostError, `signal.reason`.
   */
  allOf(job: ListingJob, options?: { outdated: boolean }): Promise<number>;
  /** What they are described with; nothing where no image is described (`MODEL_VISION=off`). */
  readonly asked: Asked | undefined;
};

/** Makes the descriptions of a process: what it learns of a bad picture in one listing holds for all. */
export function createDescribe(deps: DescribeDeps): Describe {
  const { db, model } = deps;
  if (model.visionModel === undefined) {
    return { pictures: async () => {}, allOf: async () => 0, asked: undefined };
  }
  const asked = {
    requested_model: model.visionModel,
    prompt_version: descriptionPrompt.version,
  };
  const describeOne = createDescribeOne(deps, asked);

  return {
    async pictures(job, hints, { parallel, mayWait }) {
      const undescribed = await findUndescribed(db, [...hints.keys()], asked);
      const trialJob = { ...job, mayBegin: createTrialTime(), mayWait };
      await mapParallel(undescribed, parallel, (one) =>
        describeOne(trialJob, one, hints.get(one.sha256)),
      );
    },
    asked,
    async allOf(job, { outdated } = { outdated: false }) {
      const undescribed = outdated
        ? await findOutdatedOf(db, job.listingId, asked)
        : await findUndescribedOf(db, job.listingId);
      const trialJob = { ...job, mayBegin: createTrialTime(), mayWait: true };
      await mapParallel(undescribed, AT_ONCE.remote, ({ url, ...one }) =>
        describeOne(trialJob, one, url ?? undefined),
      );
      return undescribed.length;
    },
  };
}
