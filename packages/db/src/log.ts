import { type Kysely, type RawBuilder, sql } from 'kysely';

/*
 * A log is a table whose rows are read in the order of their positions by any number of readers, each with a cursor:
 * the position of the last row it has read. Appending notifies a channel; readers wake and read on.
 *
 * Positions that a transaction takes before it commits can become visible in another order, and a reader that has seen
 * the larger one would skip the smaller one. Two kinds of log avoid this:
 * - One writer at a time for each key, such as the process that writes an answer. Positions then commit in order.
 * - Any number of writers. Rows get positions after their commit, by `settle`, one process at a time.
 */

/** Most rows that get positions in one transaction, so that it takes a moment only. */
const MAX_SETTLED = 10_000;

/**
 * Notifies the readers of a key when the transaction commits. A transaction that notifies twice sends one notification.
 * @param key Whose readers wake, such as a session; all of the channel where it is empty.
 */
export async function notify<Schema>(db: Kysely<Schema>, channel: string, key = ''): Promise<void> {
  await sql`select pg_notify(${channel}, ${key})`.execute(db);
}

/**
 * A log with any number of writers: a table with the columns `id bigint generated always as identity` and
 * `position bigint`, an index on each (the one on `id` where `position is null`), and a sequence of positions.
 */
export type Log = {
  table: string;
  sequence: string;
  channel: string;
  /** Key of the advisory lock that `settle` takes. */
  lockKey: number;
};

/** Appends rows to a log, and notifies its readers when the transaction commits. */
export async function append<Schema>(
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
 * Gives positions to committed rows that have none, in the order of their ids. One process at a time does, so positions
 * commit in their order, and no reader skips one. Readers are notified.
 * @returns `busy` while another process does; `more` where rows are left.
 * @see docs/adr/0021-change-feed.md
 */
export async function settle<Schema>(
  db: Kysely<Schema>,
  { table, sequence, channel, lockKey }: Log,
  limit = MAX_SETTLED,
): Promise<'done' | 'more' | 'busy'> {
  const log = sql.table(table);
  const unsettled = await sql`select from ${log} where position is null limit 1`.execute(db);
  if (unsettled.rows.length === 0) return 'done';
  return db.transaction().execute(async (trx) => {
    // Apart from the update, whose snapshot would otherwise be older than the lock.
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
 * Reads the rows of a log after a position, in order, after having settled those that wait for a position.
 * @param options.where Only rows of which this condition holds.
 * @returns Whole rows, at most `limit`.
 */
export async function readLog<Row extends { position: number }, Schema>(
  db: Kysely<Schema>,
  log: Log,
  options: { after: number; limit: number; where?: RawBuilder<boolean> },
): Promise<Row[]> {
  const { after, limit, where = sql`true` } = options;
  await settle(db, log);
  const { rows } = await sql<Row>`
    select * from ${sql.table(log.table)} where position > ${after} and ${where}
    order by position limit ${limit}`.execute(db);
  return rows;
}
