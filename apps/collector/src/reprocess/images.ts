import type { Kysely } from 'kysely';
import { toError } from '../async/group-commit.ts';
import type { Tables } from '../tables.ts';
import type { Images } from '../images/images.ts';
import { claimAgain } from '../queue/claim.ts';
import type { InlineJobs } from '../queue/inline.ts';
import { processName } from '../queue/worker.ts';
import { type AgainInput, walkListings } from './again.ts';
import { type Choice, countPictured, listPictured, type Pictured } from './repository.ts';

/** What became of a listing whose pictures were to be described again. */
export type Described = { listingId: number } & (
  | {
      /**
       * `described`: or refused by the model, which is recorded with them. `left`: its payload is no longer kept,
       * has failed, or another one is on its way.
       */
      outcome: 'described' | 'left';
    }
  /** The payload, and those pictures that were not described by then, are as they were. */
  | { outcome: 'failed'; error: Error }
);

/** What `oselya reprocess --pictures` does. */
export type ReprocessPictures = {
  /** How many listings of a choice have pictures that another prompt or model described, or none. */
  count(choice: Choice): Promise<number>;
  /**
   * Has these pictures described again, of as many listings at once as the worker has slots, in the order of
   * the listings' ids. What is written is found to be done the next time, so a run that was ended, however it was,
   * is gone on with by another.
   * @param options.signal Ends it: what has begun goes on.
   * @throws ModelError, or what else fails on listing after listing, as `walkListings` says.
   */
  describe(
    choice: Choice,
    options: { limit: number; signal: AbortSignal },
  ): AsyncGenerator<Described>;
};

/**
 * Has pictures described again, under the current prompt and model. Each listing's goes through the pipeline
 * under a claim of its last payload, which stays as it was read, and completed, whatever comes of it.
 * @param parallel Of how many listings at once.
 */
export function createReprocessPictures(deps: {
  db: Kysely<Tables>;
  images: Pick<Images, 'describedWith'>;
  jobs: Pick<InlineJobs<AgainInput>, 'run'>;
  leaseMs: number;
  parallel: number;
}): ReprocessPictures {
  const { db, images, jobs, leaseMs, parallel } = deps;
  const asked = images.describedWith;
  const worker = processName('reprocess');

  async function describeOne({ id: listingId, raw_id: rawId }: Pictured): Promise<Described> {
    if (rawId === null) return { listingId, outcome: 'left' };
    const target = { rawId, listingId };
    const job = await claimAgain(db, target, { worker, leaseMs }, { onlyImages: true });
    if (job === undefined) return { listingId, outcome: 'left' };
    let failure: unknown;
    const onFailure = (error: unknown) => (failure = error);
    const input = { before: job.before, describesAgain: true, onFailure };
    const outcome = await jobs.run(job, { input });
    if (failure !== undefined) return { listingId, outcome: 'failed', error: toError(failure) };
    return outcome === 'completed'
      ? { listingId, outcome: 'described' }
      : { listingId, outcome: 'failed', error: new Error(`Its payload is ${outcome}.`) };
  }

  return {
    count: async (choice) => (asked === undefined ? 0 : countPictured(db, choice, asked)),
    describe: (choice, { limit, signal }) =>
      walkListings({
        after: choice.after,
        limit,
        parallel,
        signal,
        list: async (after, count) =>
          asked === undefined ? [] : listPictured(db, { ...choice, after }, asked, count),
        work: describeOne,
        failureOf: (one) => (one.outcome === 'failed' ? one.error : undefined),
      }),
  };
}
