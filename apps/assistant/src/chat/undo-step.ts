import type { Kysely } from 'kysely';
import { lockMemoryOf, undoChanges } from '../memory/facts.ts';
import { lockChanges, noteUndone } from '../planning/index.ts';
import type { Tables } from '../tables.ts';

/**
 * Undoes what a step of a user's session changed in their memory: all of it, or nothing if some of it has changed since.
 * @returns Whether it undid something.
 * @throws ProblemError `memory_full`
 */
export function undoStep(
  db: Kysely<Tables>,
  { userId, sessionId, stepId }: { userId: string; sessionId: string; stepId: string },
): Promise<boolean> {
  return db.transaction().execute(async (trx) => {
    await lockMemoryOf(trx, userId);
    const changes = await lockChanges(trx, { sessionId, stepId });
    if (changes.length === 0) return false;
    if (!(await undoChanges(trx, { userId, sessionId }, changes))) return false;
    await noteUndone(trx, stepId);
    return true;
  });
}
