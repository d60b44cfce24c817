import { retryConflicts } from '@oselya/db';
import type { Kysely, Transaction } from 'kysely';
import { recordAudit } from '../admin/audit.ts';
import { deleteMemoryOf, lockMemoryOf } from '../memory/facts.ts';
import { deleteSavedSearchesOf } from '../saved-searches/saved-searches.ts';
import { deleteSessionsOf } from '../sessions/index.ts';
import type { Tables } from '../tables.ts';

/** How much of what was deleted. */
export type DeletedData = {
  sessions: number;
  saved_searches: number;
  facts: number;
  summaries: number;
};

/**
 * Deletes everything that a user has said, stored and had remembered: sessions with their messages, summaries,
 * steps and files, saved searches, facts and summary. The account and its sign-ins stay, and so does the audit trail, which says
 * that this was done where there was something to delete. An answer that is being written ends.
 */
export function deleteOwnData(db: Kysely<Tables>, userId: string): Promise<DeletedData> {
  const work = async (trx: Transaction<Tables>) => {
    await lockMemoryOf(trx, userId);
    const sessions = await deleteSessionsOf(trx, userId);
    const saved_searches = await deleteSavedSearchesOf(trx, userId);
    const deleted = { sessions, saved_searches, ...(await deleteMemoryOf(trx, userId)) };
    // Whoever asks again and again would bury the trail in lines that say nothing.
    if (Object.values(deleted).some((count) => count > 0)) {
      await recordAudit(trx, {
        action: 'own_data_deleted',
        actorId: userId,
        userId,
        details: deleted,
      });
    }
    return deleted;
  };
  // What refers to sessions and searches is locked in the order of the references to them, which is none.
  return retryConflicts(() => db.transaction().execute(work));
}
