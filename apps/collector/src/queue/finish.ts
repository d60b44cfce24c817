import { retryConflicts } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { createGroupCommit } from '../async/group-commit.ts';
import { release } from './release.sql.ts';
import { type JobEnding, finishJobs } from './finish.sql.ts';

/** Most jobs whose ends one statement writes. */
const MAX_GROUP = 100;
const MAX_IN_FLIGHT = 2;

/**
 * Makes the function that writes how a job ended: jobs that end while others are being written share one
 * statement. Then what waited for them is let go, which must not be part of that statement: it would not
 * see what was stored meanwhile (see release.sql.ts).
 * @returns Gives false where the claim was lost, and nothing was written.
 */
export function createFinish(deps: {
  db: Kysely<Tables>;
  log: Logger;
}): (ending: JobEnding) => Promise<boolean> {
  const { db, log } = deps;
  return createGroupCommit<JobEnding, boolean>({
    maxItems: MAX_GROUP,
    maxInFlight: MAX_IN_FLIGHT,
    async write(endings) {
      const written = await retryConflicts(() => finishJobs(db, endings));
      // Of all: one that was written before, and whose answer an outage kept from us, was not let go then.
      const listings = endings.map(({ job }) => job);
      await release(db, listings).catch((error: unknown) =>
        log.warn({ err: error }, 'what waited for ended jobs waits for the next sweep'),
      );
      return written;
    },
  });
}
