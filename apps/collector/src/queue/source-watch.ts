import type { Kysely } from 'kysely';
import type { Tables } from '../database/tables.ts';
import { hasSeveralSources } from './sources.sql.ts';

/** How old the answer may be. */
const MAX_AGE_MS = 10_000;

/** Whether slots are to be reserved for other sources, since there are others. */
type SourceWatch = {
  readonly areSeveral: boolean;
  /**
   * Asks again where the answer is old.
   * @throws What the database throws.
   */
  look(): Promise<void>;
};

/** @param clock Milliseconds that only grow. */
export function createSourceWatch(
  db: Kysely<Tables>,
  clock: () => number = () => performance.now(),
): SourceWatch {
  let areSeveral = false;
  let askedAt = -Infinity;
  return {
    get areSeveral() {
      return areSeveral;
    },
    async look() {
      const now = clock();
      if (now - askedAt < MAX_AGE_MS) return;
      areSeveral = await hasSeveralSources(db);
      askedAt = now;
    },
  };
}
