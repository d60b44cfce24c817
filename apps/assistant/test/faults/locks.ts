import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import type { Tables } from '../../src/tables.ts';
import { until } from '../helpers/until.ts';

/**
 * Keeps what a statement locks while `work` runs, then lets go of it unchanged. PostgreSQL only: the
 * embedded database has one connection.
 */
export async function whileLocked(
  db: Kysely<Tables>,
  lock: RawBuilder<unknown>,
  work: () => Promise<void>,
): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await lock.execute(trx);
    await work();
  });
}

/**
 * Waits until another connection waits for a lock, and gives the number of its server process.
 * @param kind Of the lock, as `wait_event` has it; any, unless it is said.
 */
export async function untilBlocked(
  db: Kysely<Tables> | Transaction<Tables>,
  kind?: 'advisory',
): Promise<number> {
  let pid: number | undefined;
  await until(async () => {
    const { rows } = await sql<{ pid: number }>`
      select pid from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'
        and wait_event = coalesce(${kind ?? null}, wait_event)`.execute(db);
    pid = rows[0]?.pid;
    return pid !== undefined;
  });
  if (pid === undefined) throw new Error('Nobody is blocked');
  return pid;
}

/** How many connections wait for a lock of any kind. */
export async function countBlocked(db: Kysely<Tables>): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`.execute(db);
  return rows[0]?.count ?? 0;
}

/** Ends the server's side of a connection, as the server does when it notices that a client is dead. */
export async function terminate(db: Kysely<Tables>, pid: number): Promise<void> {
  await sql`select pg_terminate_backend(${pid})`.execute(db);
}
