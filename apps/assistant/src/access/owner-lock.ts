import { sql, type Transaction } from 'kysely';
import type { Tables } from '../tables.ts';

/** Locks with two numbers are apart from those with one; no other lock of ours has two. */
const OWNERS = 1;

/**
 * Lets one transaction after another count what a user owns and add to it, on all processes: it waits
 * for the one before, and holds the lock until it ends. Two users may share a lock, which costs them a
 * wait.
 */
export async function lockOwner(trx: Transaction<Tables>, userId: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(${OWNERS}::int, hashtext(${userId}))`.execute(trx);
}
