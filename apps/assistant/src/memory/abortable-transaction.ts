import type { Kysely, Transaction } from 'kysely';
import type { Tables } from '../tables.ts';

/**
 * Runs a transaction that is given up when a signal comes: it is waited for no longer, whatever lock or connection it
 * waits for, and changes nothing. One whose work is done by then is waited for, so that nobody takes for undone what
 * is being committed.
 * @param signal Without it the transaction takes as long as it takes.
 * @throws The signal's reason; what `work` and the database throw.
 */
export function abortableTransaction<Result>(
  db: Kysely<Tables>,
  signal: AbortSignal | undefined,
  work: (trx: Transaction<Tables>) => Promise<Result>,
): Promise<Result> {
  const { promise, resolve, reject } = Promise.withResolvers<Result>();
  const giveUp = () => reject(signal?.reason);
  signal?.addEventListener('abort', giveUp, { once: true });
  db.transaction()
    .execute(async (trx) => {
      signal?.throwIfAborted();
      const result = await work(trx);
      signal?.throwIfAborted();
      signal?.removeEventListener('abort', giveUp);
      return result;
    })
    .then(resolve, reject)
    .finally(() => signal?.removeEventListener('abort', giveUp));
  return promise;
}
