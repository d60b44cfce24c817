import type { Kysely, RawBuilder } from 'kysely';
import type { Tables } from '../tables.ts';

/**
 * What of a table is kept no longer: a statement that deletes up to `limit` rows of it. It passes over
 * rows that others have locked, since two that sweep at once would otherwise wait for one another.
 */
export type Sweep = (limit: number) => RawBuilder<unknown>;

/** How many rows one statement deletes, and how many statements one sweep takes at most. */
const BATCH = 1000;
const MAX_BATCHES = 100;

/**
 * Deletes what is kept no longer, in batches that hold no lock for long.
 * @returns How many rows were deleted.
 */
export async function runSweep(db: Kysely<Tables>, sweep: Sweep): Promise<number> {
  let deleted = 0;
  for (let batch = 0; batch < MAX_BATCHES; batch += 1) {
    const { numAffectedRows = 0n } = await sweep(BATCH).execute(db);
    deleted += Number(numAffectedRows);
    if (numAffectedRows < BATCH) break;
  }
  return deleted;
}
