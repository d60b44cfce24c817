import { setTimeout as sleep } from 'node:timers/promises';
import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Database } from './connect.ts';
import { isDatabaseOutage } from './errors.ts';

/*
 * A log is a table whose rows are read in the order of their positions by any number of readers, each with a cursor:
 * the position of the last row it has read. Appending notifies a channel; readers wake and read on.
 *
 * Positions that a transaction takes before it commits can become visible in another order, and a reader that has seen
 * the larger one would skip the smaller one. Two kinds of log avoid this:
 * - One writer at a time for each key, such as the process that writes an answer. Positions then commit in order.
 * - Any number of writers. Rows get positions after their commit, by `settle`, one process at a time.
 */

/** Pause before a read that an outage of the database prevented is repeated. */
const RETRY_MS = 1000;

/** Most rows that get positions in one transaction, so that it takes a moment only. */
const MAX_SETTLED = 10_000;

/**
 * Notifies the readers of a key when the transaction commits. A transaction that notifies twice sends one notification.
 * @param key Whose readers wake, such as a session; all of the channel where it is empty.
 */
export async function notify<Schema>(db: Kysely<Schema>, channel: string, key = ''): Promise<void> {
  await sql`select pg_notify(${channel}, ${key})`.execute(db);
}

/** Wakes the readers of one channel, over one subscription of the process. */
export type LogChannel = {
  /** Calls `wake` after notifications of a key, of any where it is empty, and when some may have been lost. */
  subscribe: (key: string, wake: () => void) => () => void;
  close: () => Promise<void>;
};

/**
 * Listens to a channel for all readers of this process.
 * @throws DatabaseError DATABASE_UNREACHABLE.
 */
export async function openChannel<Schema>(
  database: Pick<Database<Schema>, 'listen'>,
  name: string,
): Promise<LogChannel> {
  const readers = new Map<string, Set<() => void>>();
  const close = await database.listen(name, (key) => {
    // An empty key also stands for a renewed connection, whose notifications were lost.
    const woken = key === '' ? [...readers.values()] : [key, ''].map((of) => readers.get(of) ?? []);
    for (const wake of woken.flatMap((wakes) => [...wakes])) wake();
  });
  return {
    subscribe(key, wake) {
      const wakes = readers.get(key) ?? new Set();
      readers.set(key, wakes.add(wake));
      return () => {
        wakes.delete(wake);
        if (wakes.size === 0 && readers.get(key) === wakes) readers.delete(key);
      };
    },
    close,
  };
}

/** The reader of a log: where it begins, and how it reads on. */
export type TailOptions<Row extends { position: unknown }> = {
  channel: LogChannel;
  /** Of the notifications that wake it; all of the channel unless given. */
  key?: string;
  /** Cursor: the position of the last row that the reader knows. */
  after: Row['position'];
  /** Reads the next rows after a position, in order; none at the end. */
  read: (after: Row['position']) => Promise<Row[]>;
  /** How often it reads without having been woken. */
  pollMs: number;
  signal: AbortSignal;
};

/**
 * Follows a log from a cursor on: yields the rows that are there, then those that come, each once and in order. A
 * notification is a hint that can be lost, so it also polls. An outage of the database only delays it.
 * @returns Batches of at least one row, until the signal is aborted.
 * @throws What `read` throws, outages left out.
 * @example
 * const channel = await openChannel(database, 'assistant_turns');
 * const read = (after: number) => readEvents(db, { turnId, after });
 * for await (const events of tail({ channel, key: sessionId, after: 0, read, pollMs: 10_000, signal })) {
 *   for (const event of events) send(event);
 * }
 */
export async function* tail<Row extends { position: unknown }>(
  options: TailOptions<Row>,
): AsyncGenerator<Row[], void> {
  const { channel, key = '', read, pollMs, signal } = options;
  let { after } = options;
  let isWoken = false;
  let wakeUp: (() => void) | undefined;
  const wake = () => {
    isWoken = true;
    wakeUp?.();
  };
  const unsubscribe = channel.subscribe(key, wake);
  signal.addEventListener('abort', wake);
  try {
    while (!signal.aborted) {
      // Before the read: a notification during it asks for another one.
      isWoken = false;
      const rows = await read(after).catch((error: unknown) => {
        if (!isDatabaseOutage(error)) throw error;
      });
      const last = rows?.at(-1);
      if (rows !== undefined && last !== undefined && !signal.aborted) {
        after = last.position;
        yield rows;
        continue;
      }
      if (rows === undefined)
        await sleep(RETRY_MS, undefined, { signal, ref: false }).catch(() => undefined);
      else if (!isWoken) {
        const timer = setTimeout(wake, pollMs).unref();
        await new Promise<void>((resolve) => (wakeUp = resolve));
        clearTimeout(timer);
      }
    }
  } finally {
    signal.removeEventListener('abort', wake);
    unsubscribe();
  }
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
