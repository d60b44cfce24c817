import { type Kysely, sql } from 'kysely';

/*
 * A log is a table that any number of readers read in the order of its positions. A reader has a cursor: the position
 * of its last row.
 *
 * If transactions assigned positions before they commit, a larger position could become visible before a smaller one,
 * and readers would skip the smaller one. So `assignPositions` assigns them after the commit, in one process at a time.
 */

/**
 * Notifies a channel when the transaction commits. PostgreSQL merges identical notifications of one transaction.
 * @param key Payload that identifies the readers, such as a session. An empty key notifies all readers of the channel.
 */
export async function notify<Schema>(db: Kysely<Schema>, channel: string, key = ''): Promise<void> {
  await sql`select pg_notify(${channel}, ${key})`.execute(db);
}

/**
 * Log with any number of writers. Its table has the columns `id bigint generated always as identity` and `position
 * bigint`. It needs an index on `position`, an index on `id` where `position is null`, and a sequence of positions.
 */
export type Log = {
  table: string;
  sequence: string;
  /** Key of the advisory lock that `assignPositions` acquires. */
  lockKey: number;
};

/**
 * Assigns positions to committed rows that have none, in the order of their IDs. One process at a time
 * assigns positions, so they commit in order and no reader skips a row.
 * @param limit Maximum number of rows, to keep the transaction short.
 * @returns `busy` if another process is assigning positions, `more` if rows without a position may remain.
 * @see docs/adr/0021-change-feed.md
 */
export async function assignPositions<Schema>(
  db: Kysely<Schema>,
  { table, sequence, lockKey }: Log,
  limit: number,
): Promise<'done' | 'more' | 'busy'> {
  const log = sql.table(table);
  const pendingRows = await sql`select from ${log} where position is null limit 1`.execute(db);
  if (pendingRows.rows.length === 0) return 'done';
  return db.transaction().execute(async (trx) => {
    // A separate statement, because the snapshot of the update must be newer than the lock.
    const { rows } = await sql<{ isHeld: boolean }>`
      select pg_try_advisory_xact_lock(${lockKey}) as "isHeld"`.execute(trx);
    if (rows[0]?.isHeld !== true) return 'busy';
    const { numAffectedRows = 0n } = await sql`
      with pending as materialized (
        select id from ${log} where position is null order by id limit ${limit}),
      numbered as materialized (
        select id, nextval(${sequence}::regclass) as position from pending)
      update ${log} set position = numbered.position
      from numbered where ${log}.id = numbered.id`.execute(trx);
    return Number(numAffectedRows) < limit ? 'done' : 'more';
  });
}
