import type { Kysely } from 'kysely';
import type { Tables } from '../../tables.ts';
import { problem } from '../../errors.ts';
import {
  findRetryState,
  putBackOne,
  putBackSome,
  readTime,
  type RetryStatus,
} from '../../queue/retry.ts';

const PICTURES_GONE =
  'The payload came with its pictures, which are kept only when it is completed: send it again with them.';

/** How many payloads one statement puts back: each holds its locks for a moment only. */
const BATCH = 1000;

/** Puts payloads that ended badly back in the queue. Contract 4, Operations. */
export type Retry = {
  /**
   * Puts one payload back in the queue, with all its attempts.
   * @throws ProblemError `raw_not_found`, or `not_retryable` where it has not ended badly, or its
   *   pictures came with it and were not kept.
   */
  one(rawId: number): Promise<void>;
  /**
   * Puts all payloads of a status back in the queue, batch after batch, and gives how many.
   * @param signal Ends it after the batch in progress.
   */
  all(
    filter: { status: RetryStatus; source_slug?: string | undefined },
    signal?: AbortSignal,
  ): Promise<number>;
};

/**
 * Puts payloads that ended `failed` or `invalid` back in the queue, after the model or the prompt was
 * mended. Contract 4, Operations.
 * @param onRetried Called when there is work again.
 */
export function createRetry(deps: { db: Kysely<Tables>; onRetried: () => void }): Retry {
  const { db, onRetried } = deps;
  return {
    async one(rawId) {
      if (!(await putBackOne(db, rawId))) {
        const state = await findRetryState(db, rawId);
        if (state === undefined) throw problem('raw_not_found');
        const { status, lacksImages } = state;
        const detail =
          lacksImages && status !== 'processing' ? PICTURES_GONE : `The payload is ${status}.`;
        throw problem('not_retryable', { detail });
      }
      onRetried();
    },
    async all({ status, source_slug: source }, signal) {
      // What fails again while this goes on is not put back a second time: it might never end.
      const endedBefore = await readTime(db);
      let retried = 0;
      for (let batch = BATCH; batch === BATCH; retried += batch) {
        batch = await putBackSome(db, { status, source, endedBefore, limit: BATCH });
        if (batch > 0) onRetried();
        if (signal?.aborted === true) return retried + batch;
      }
      return retried;
    },
  };
}
