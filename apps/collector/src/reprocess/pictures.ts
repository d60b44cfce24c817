import type { Kysely } from 'kysely';
import { mapInOrder } from '../async/map-in-order.ts';
import type { Tables } from '../database/tables.ts';
import type { Images } from '../images/index.ts';
import type { JobInput } from '../pipeline/context.ts';
import { claimAgain, type InlineJobs, processName } from '../queue/index.ts';
import { type Choice, countPictured, listPictured, type Pictured } from './repository.ts';

const PAGE = 64;

/** A model that fails on so many in a row fails on all, for a reason of its own. */
const MAX_FAILED_IN_A_ROW = 10;

/** What became of a listing whose pictures were to be described again. */
export type DescribeOutcome =
  /** Or refused by the model, which is recorded with them. */
  | 'described'
  /** Its payload is no longer kept, has failed, or another one is on its way. */
  | 'left'
  /** The model is away, or failed: its payload says why, or is done with by a worker. */
  | 'failed';

export type ReprocessPictures = {
  /** How many listings of a choice have pictures that another prompt or model described, or none. */
  count(choice: Choice): Promise<number>;
  /**
   * Has these pictures described again, of as many listings at once as the worker has slots. What is written is
   * found to be done the next time, so a run that was ended, however it was, is gone on with by another.
   * @param options.signal Ends it: what has begun goes on.
   * @throws PicturesFailedError where the model fails on many in a row.
   */
  describe(
    choice: Choice,
    options: { limit: number; signal: AbortSignal },
  ): AsyncGenerator<{ listingId: number; outcome: DescribeOutcome }>;
};

/** The model fails on the pictures of listing after listing. */
export class PicturesFailedError extends Error {
  override readonly name = 'PicturesFailedError';

  constructor(listingId: number) {
    super(
      `The model failed on the pictures of ${MAX_FAILED_IN_A_ROW} listings in a row, the last one ${listingId}.`,
    );
  }
}

/**
 * Has pictures described again, under the current prompt and model. Each listing's goes through the pipeline
 * under a claim of its last payload, which stays as it was read.
 * @param parallel Of how many listings at once.
 */
export function createReprocessPictures(deps: {
  db: Kysely<Tables>;
  images: Pick<Images, 'describedWith'>;
  jobs: Pick<InlineJobs<JobInput>, 'run'>;
  leaseMs: number;
  parallel: number;
}): ReprocessPictures {
  const { db, images, jobs, leaseMs, parallel } = deps;
  const asked = images.describedWith;
  const worker = processName('reprocess');

  async function describeOne({ id, raw_id: rawId }: Pictured): Promise<DescribeOutcome> {
    if (rawId === null) return 'left';
    const target = { rawId, listingId: id };
    const job = await claimAgain(db, target, { worker, leaseMs }, { onlyPictures: true });
    if (job === undefined) return 'left';
    const outcome = await jobs.run(job, { input: { describesAgain: true } });
    return outcome === 'completed' ? 'described' : 'failed';
  }

  return {
    count: (choice) => countPictured(db, choice, asked),

    async *describe(choice, { limit, signal }) {
      let failedInARow = 0;
      for (let [{ after }, left] = [choice, limit]; left > 0;) {
        const page = await listPictured(db, { ...choice, after }, asked, Math.min(PAGE, left));
        const described = mapInOrder(page, parallel, async (one) => ({
          listingId: one.id,
          outcome: await describeOne(one),
        }));
        for await (const one of described) {
          yield one;
          if (signal.aborted) return;
          failedInARow = one.outcome === 'failed' ? failedInARow + 1 : 0;
          if (failedInARow === MAX_FAILED_IN_A_ROW) throw new PicturesFailedError(one.listingId);
        }
        after = page.at(-1)?.id ?? Infinity;
        left = page.length < PAGE ? 0 : left - page.length;
      }
    },
  };
}
