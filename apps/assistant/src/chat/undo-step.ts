import type { Kysely, Transaction } from 'kysely';
import { problem } from '../errors.ts';
import {
  countOwnFacts,
  deleteFact,
  findFact,
  lockMemoryOf,
  MAX_FACTS,
  type MemoryChange,
  restoreFact,
  writeFact,
} from '../memory/index.ts';
import { lockChanges, noteUndone } from '../planning/index.ts';
import type { Tables } from '../tables.ts';

/**
 * Takes back what a step of a user's session changed in their memory: all of it, or nothing where some of it
 * has been changed since.
 * @returns Whether there was something to take back.
 * @throws ProblemError `memory_full` where facts that come back would be too many.
 */
export function undoStep(
  db: Kysely<Tables>,
  { userId, sessionId, stepId }: { userId: string; sessionId: string; stepId: string },
): Promise<boolean> {
  return db.transaction().execute(async (trx) => {
    await lockMemoryOf(trx, userId);
    const changes = await lockChanges(trx, { sessionId, stepId });
    if (changes.length === 0 || !(await areCurrent(trx, userId, changes))) return false;
    for (const { category, key, previous: value, origin } of changes) {
      const fact = { userId, category, key };
      if (value === null) await deleteFact(trx, fact);
      else if (origin !== undefined) await restoreFact(trx, { ...fact, value, origin });
      // Of a step of an earlier release, which did not keep where the fact came from.
      else await writeFact(trx, { ...fact, value, sourceSessionId: sessionId });
    }
    await checkRoom(trx, userId, changes);
    await noteUndone(trx, stepId);
    return true;
  });
}

/**
 * Holds what a user has by now against its limit, where it has become more.
 * @param changes What was taken back: facts without a value were forgotten, those without an earlier one were new.
 * @throws ProblemError `memory_full`.
 */
async function checkRoom(
  trx: Transaction<Tables>,
  userId: string,
  changes: readonly MemoryChange[],
): Promise<void> {
  const cameBack = changes.filter(({ value }) => value === null).length;
  const went = changes.filter(({ previous }) => previous === null).length;
  if (cameBack <= went || (await countOwnFacts(trx, userId)) <= MAX_FACTS) return;
  throw problem('memory_full', {
    detail: `You have ${MAX_FACTS} facts, which is the most. Delete one that is not needed any more, then undo this again.`,
  });
}

async function areCurrent(
  trx: Transaction<Tables>,
  userId: string,
  changes: readonly MemoryChange[],
): Promise<boolean> {
  for (const { category, key, value } of changes) {
    const current = await findFact(trx, { userId, category, key });
    if (current?.value !== (value ?? undefined)) return false;
  }
  return true;
}
