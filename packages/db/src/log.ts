import { type Kysely, type RawBuilder, sql } from 'kysely';

/*
 * A log is a table that any number of readers read in order of its positions. Each reader has a cursor: the position
 * of its last row. Appending notifies a channel, which wakes the readers.
 *
 * If transactions assign positions before they commit, a larger position can become visible before a smaller one, and
 * readers would skip the smaller one. Two kinds of logs avoid this:
 * - Logs with one writer at a time per key, such as the process that writes an answer. Positions commit in order.
 * - Logs with any number of writers. `settleLog` assigns positions after the commit, in one process at a time.
 */

/** Maximum number of rows that get positions in one transaction, to keep it short. */
const MAX_SETTLED_ROWS = 10_000;

/**
 * Notifies a channel when the transaction commits. PostgreSQL merges equal notifications of one transaction.
 * @param key Payload that identifies the readers, such as a session. An empty key notifies all readers of the channel.
 */
export async function notify<Schema>(db: Kysely<Schema>, channel: string, key = ''): Promise<void> {
  await sql`select pg_notify(${channel}, ${key})`.execute(db);
}

/**
 * Log with any number of writers: a table with the columns `id bigint generated always as identity` and `position
 * bigint`, an index on `position`, an index on `id` where `position is null`, and a sequence of positions.
 */
export type Log = {
  table: string;
  sequence: string;
  channel: string;
  /** Key of the advisory lock that `settleLog` acquires. */
  lockKey: number;
};

/** Appends rows to a log, and notifies its readers when the transaction commits. */
export async function appendToLog<Schema>(
  trx: Kysely<Schema>,
  log: Pick<Log, 'table' | 'channel'>,
  rows: readonly Readonly<Record<string, unknown>>[],
): Promise<void> {
  const [first] = rows;
  if (first === undefined) return;
  const columns = Object.keys(first);
  const values = rows.map((row) => sql`(${sql.join(columns.map((column) => row[column]))})`);
  await sql`
    insert into ${sql.table(log.table)} (${sql.join(columns.map((column) => sql.ref(column)))})
    values ${sql.join(values)}`.execute(trx);
  await notify(trx, log.channel);
}

/**
 * Assigns positions to committed rows without one, in the order of their IDs, and notifies the readers. One process at
 * a time assigns positions, so they commit in order and no reader skips a row.
 * @returns `busy` if another process is assigning positions, `more` if rows without a position remain.
 * @see docs/adr/0021-change-feed.md
 */
export async function settleLog<Schema>(
  db: Kysely<Schema>,
  { table, sequence, channel, lockKey }: Log,
  limit = MAX_SETTLED_ROWS,
): Promise<'done' | 'more' | 'busy'> {
  const log = sql.table(table);
  const unsettled = await sql`select from ${log} where position is null limit 1`.execute(db);
  if (unsettled.rows.length === 0) return 'done';
  return db.transaction().execute(async (trx) => {
    // A separate statement, because the snapshot of the update must be newer than the lock.
    const { rows } = await sql<{ isHeld: boolean }>`
      select pg_try_advisory_xact_lock(${lockKey}) as "isHeld"`.execute(trx);
    if (rows[0]?.isHeld !== true) return 'busy';
    const { numAffectedRows = 0n } = await sql`
      with unsettled as materialized (
        select id from ${log} where position is null order by id limit ${limit}),
      settled as materialized (
        select id, nextval(${sequence}::regclass) as position from unsettled)
      update ${log} set position = settled.position
      from settled where ${log}.id = settled.id`.execute(trx);
    await notify(trx, channel);
    return Number(numAffectedRows) < limit ? 'done' : 'more';
  });
}

/**
 * Settles a log, then reads the rows after a position, in order.
 * @param options.where SQL condition that filters the rows.
 * @returns At most `limit` rows with all columns.
 */
export async function readLog<Row extends { position: number }, Schema>(
  db: Kysely<Schema>,
  log: Log,
  options: { after: number; limit: number; where?: RawBuilder<boolean> },
): Promise<Row[]> {
  const { after, limit, where = sql`true` } = options;
  await settleLog(db, log);
  const { rows } = await sql<Row>`
    select * from ${sql.table(log.table)} where position > ${after} and ${where}
    order by position limit ${limit}`.execute(db);
  return rows;
}
