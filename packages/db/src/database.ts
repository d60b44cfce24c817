import type { Kysely } from 'kysely';
import type pg from 'pg';

/** Called with the payload of a notification; an empty payload also stands for "look again". */
export type Notify = (payload: string) => void;

/**
 * An open database. `db` is the way to query it; `pool` is for libraries that bring their own SQL.
 * With PGlite the pool has one connection, so a query on `db` inside a transaction of `db` would wait
 * for itself: pass the transaction on.
 */
export type Database<Schema> = {
  readonly engine: 'pglite' | 'postgres';
  /** Whether it belongs to this process: no other one can have it open. */
  readonly isExclusive: boolean;
  readonly db: Kysely<Schema>;
  readonly pool: pg.Pool;
  /**
   * Hears notifications of a channel until the returned function is called. A notification is a hint:
   * it can be lost while a connection is renewed, after which the listener is called with an empty
   * payload.
   * @throws DatabaseError DATABASE_UNREACHABLE.
   */
  listen: (channel: string, notify: Notify) => Promise<() => Promise<void>>;
  close: () => Promise<void>;
};

/** What an engine has to give; `connect` makes the database of it. */
export type Engine = Pick<Database<never>, 'pool' | 'listen' | 'close'>;
