import type { Kysely } from 'kysely';
import type { Tables } from '../../tables.ts';
import type { Metrics } from '../../metrics.ts';
import { readCutoff, removeSome } from './cleanup.sql.ts';

/** How many payloads one statement looks at: it holds their locks for a moment only. */
const BATCH = 1000;

/**
 * Removes completed payloads that came more than so many days ago, batch after batch.
 * @param options.signal Ends it after the batch in progress.
 * @returns How many.
 */
export type RawCleanup = (options: {
  olderThanDays: number;
  signal?: AbortSignal;
}) => Promise<number>;

/**
 * Makes the removal of old payloads, those that listings were made from among them: they hold names and
 * telephone numbers, and whoever sets a term for these means all of them. Specification 001, Listing
 * archive; Contract 4, Operations; ADR 0013.
 */
export function createRawCleanup(deps: {
  db: Kysely<Tables>;
  metrics: Pick<Metrics, 'rawDeleted'>;
}): RawCleanup {
  const { db, metrics } = deps;
  return async ({ olderThanDays, signal }) => {
    const cutoff = await readCutoff(db, olderThanDays);
    let total = 0;
    for (let after: number | undefined = 0; after !== undefined;) {
      const { deleted, next } = await removeSome(db, { cutoff, after, limit: BATCH });
      metrics.rawDeleted.inc(deleted);
      total += deleted;
      after = signal?.aborted === true ? undefined : next;
    }
    return total;
  };
}
