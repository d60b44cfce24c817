import type { Kysely } from 'kysely';
import { lockOwner } from '../access/owner-lock.ts';
import { recordAudit } from '../audit/index.ts';
import { deleteMemoryOf } from '../memory/index.ts';
import { deleteSavedSearchesOf } from '../saved-searches/index.ts';
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
 * that this was done. An answer that is being written ends.
 */
export function deleteOwnData(db: Kysely<Tables>, userId: string): Promise<DeletedData> {
  return db.transaction().execute(async (trx) => {
    await lockOwner(trx, userId);
    const sessions = await deleteSessionsOf(trx, userId);
    const saved_searches = await deleteSavedSearchesOf(trx, userId);
    const deleted = { sessions, saved_searches, ...(await deleteMemoryOf(trx, userId)) };
    await recordAudit(trx, {
      action: 'own_data_deleted',
      actorId: userId,
      userId,
      details: deleted,
    });
    return deleted;
  });
}
