import { sql, type Transaction } from 'kysely';
import { lockOwner } from '../access/permissions.ts';
import type { Tables } from '../tables.ts';

/**
 * Lets one transaction after another change what is remembered of a user, as `lockOwner` does, and none beside an
 * adoption of legacy data, which may take long and keeps writers of memory waiting for its end. It is waited for here,
 * before a row of anything is locked: what waited with rows of a turn would keep all answers of its process from saying
 * that they are being written.
 */
export async function lockMemoryOf(trx: Transaction<Tables>, userId: string): Promise<void> {
  await lockOwner(trx, userId);
  await sql`lock table memory_facts in row exclusive mode`.execute(trx);
}
