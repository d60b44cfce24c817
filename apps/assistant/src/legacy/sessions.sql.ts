import { sql, type Transaction } from 'kysely';
import type { Tables } from '../tables.ts';

/**
 * Keeps a user's record from being deleted until the transaction ends.
 * @returns Whether there is one.
 */
export async function keepUser(trx: Transaction<Tables>, userId: string): Promise<boolean> {
  const user = await trx
    .selectFrom('svc_users')
    .select('id')
    .where('id', '=', userId)
    .forKeyShare()
    .executeTakeFirst();
  return user !== undefined;
}

/**
 * Keeps other writers of memory waiting until the transaction ends; readers go on. A fact that came between
 * the comparison and the assignment would have its double, and one that changed would lose its new value.
 */
export async function lockMemory(trx: Transaction<Tables>): Promise<void> {
  await sql`lock table memory_facts, memory_summaries in share row exclusive mode`.execute(trx);
}

/**
 * Gives a user the conversation sessions that have no owner. Specification 000, Legacy data.
 * @returns How many there were.
 */
export async function assignSessions(trx: Transaction<Tables>, userId: string): Promise<number> {
  const { numUpdatedRows } = await trx
    .updateTable('conversation_sessions')
    .set({ user_id: userId })
    .where('user_id', 'is', null)
    .executeTakeFirst();
  return Number(numUpdatedRows);
}
