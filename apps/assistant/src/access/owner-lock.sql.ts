import { sql, type Transaction } from 'kysely';
import type { Tables } from '../tables.ts';

/** Locks with two numbers are apart from those with one; no other lock of ours has two. */
const OWNERS = 1;

/**
 * Lets one transaction after another count what a user owns and add to it, on all processes: it waits
 * for the one before, and holds the lock until it ends. Two users may share a lock, which costs them a
 * wait.
 *
 * It comes before every lock of a row: who takes several takes first the owner's, then that of memory (`lockMemoryOf`),
 * then a session's (`lockSession`, or by deleting it), then those of what is in it, and of facts last. Two that go by
 * one order never wait for each other.
 */
export async function lockOwner(trx: Transaction<Tables>, userId: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(${OWNERS}::int, hashtext(${userId}))`.execute(trx);
}
