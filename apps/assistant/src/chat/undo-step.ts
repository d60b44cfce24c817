import type { Kysely, Transaction } from 'kysely';
import { lockOwner } from '../access/owner-lock.ts';
import { deleteFact, findValue, type MemoryChange, writeFact } from '../memory/index.ts';
import { lockChanges, noteUndone } from '../planning/index.ts';
import type { Tables } from '../tables.ts';

/**
 * Takes back what a step of a user's session changed in their memory: all of it, or nothing where some of it
 * has been changed since.
 * @returns Whether there was something to take back.
 */
export function undoStep(
  db: Kysely<Tables>,
  { userId, sessionId, stepId }: { userId: string; sessionId: string; stepId: string },
): Promise<boolean> {
  return db.transaction().execute(async (trx) => {
    await lockOwner(trx, userId);
    const changes = await lockChanges(trx, { sessionId, stepId });
    if (changes.length === 0 || !(await areCurrent(trx, userId, changes))) return false;
    for (const { category, key, previous } of changes) {
      const fact = { userId, category, key };
      if (previous === null) await deleteFact(trx, fact);
      else await writeFact(trx, { ...fact, value: previous, sourceSessionId: sessionId });
    }
    await noteUndone(trx, stepId);
    return true;
  });
}

async function areCurrent(
  trx: Transaction<Tables>,
  userId: string,
  changes: readonly MemoryChange[],
): Promise<boolean> {
  for (const { category, key, value } of changes) {
    const current = await findValue(trx, { userId, category, key });
    if (current !== (value ?? undefined)) return false;
  }
  return true;
}
