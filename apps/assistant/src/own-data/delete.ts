import { type Kysely, sql, type Transaction } from 'kysely';
import { lockOwner } from '../access/owner-lock.ts';
import { recordAudit } from '../audit/record.ts';
import type { Tables } from '../tables.ts';

/** How much of what was deleted. */
export type DeletedData = { sessions: number; facts: number; summaries: number };

/**
 * Deletes everything that a user has said, stored and had remembered: sessions with their messages, steps and
 * files, facts and summary. The account and its sign-ins stay, and so does the audit trail, which says that
 * this was done. An answer that is being written ends.
 */
export function deleteOwnData(db: Kysely<Tables>, userId: string): Promise<DeletedData> {
  return db.transaction().execute(async (trx) => {
    await lockOwner(trx, userId);
    // Nothing comes into a session while it goes.
    await trx
      .selectFrom('conversation_sessions')
      .select('id')
      .where('user_id', '=', userId)
      .forUpdate()
      .execute();
    // One by one: a table of an older system may lack the reference, or the cascade.
    for (const table of [
      'conversation_messages',
      'agent_steps',
      'session_files',
      'chat_turns',
    ] as const) {
      await sql`delete from ${sql.table(table)} where session_id in (
        select id from conversation_sessions where user_id = ${userId})`.execute(trx);
    }
    const deleted = {
      sessions: await deleteOwn(trx, 'conversation_sessions', userId),
      facts: await deleteOwn(trx, 'memory_facts', userId),
      summaries: await deleteOwn(trx, 'memory_summaries', userId),
    };
    await recordAudit(trx, {
      action: 'own_data_deleted',
      actorId: userId,
      userId,
      details: deleted,
    });
    return deleted;
  });
}

async function deleteOwn(
  trx: Transaction<Tables>,
  table: 'conversation_sessions' | 'memory_facts' | 'memory_summaries',
  userId: string,
): Promise<number> {
  const { numDeletedRows } = await trx
    .deleteFrom(table)
    .where('user_id', '=', userId)
    .executeTakeFirstOrThrow();
  return Number(numDeletedRows);
}
