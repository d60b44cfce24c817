import type { Kysely } from 'kysely';
import { sql } from 'kysely';
import type { Tables } from '../database.ts';
import { problem } from '../errors.ts';

export type RetryStatus = 'failed' | 'invalid';

export type Retry = {
  /**
   * Puts one payload back in the queue, with all its attempts.
   * @throws ProblemError `raw_not_found`, or `not_retryable` where it has not ended badly.
   */
  one(rawId: number): Promise<void>;
  /** Puts all payloads of a status back in the queue, and gives how many. */
  all(filter: { status: RetryStatus; source_slug?: string | undefined }): Promise<number>;
};

/**
 * Puts payloads that ended `failed` or `invalid` back in the queue, after the model or the prompt was
 * mended. Contract 4, Operations.
 * @param onRetried Called when there is work again.
 */
export function createRetry(deps: { db: Kysely<Tables>; onRetried: () => void }): Retry {
  const { db, onRetried } = deps;
  const putBack = () =>
    db.updateTable('raw_data').set({
      status: 'pending',
      attempts: 0,
      error: null,
      stages: '[]',
      updated_at: sql<Date>`now()`,
    });
  return {
    async one(rawId) {
      const { numUpdatedRows } = await putBack()
        .where('id', '=', rawId)
        .where('status', 'in', ['failed', 'invalid'])
        .executeTakeFirst();
      if (numUpdatedRows === 0n) {
        const raw = await db
          .selectFrom('raw_data')
          .select('status')
          .where('id', '=', rawId)
          .executeTakeFirst();
        if (raw === undefined) throw problem('raw_not_found');
        throw problem('not_retryable', { detail: `The payload is ${raw.status}.` });
      }
      onRetried();
    },
    async all({ status, source_slug: source }) {
      const { numUpdatedRows } = await putBack()
        .where('status', '=', status)
        .$if(source !== undefined, (query) => query.where('source_slug', '=', source ?? ''))
        .executeTakeFirst();
      if (numUpdatedRows > 0n) onRetried();
      return Number(numUpdatedRows);
    },
  };
}
