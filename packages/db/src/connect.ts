import { Kysely, PostgresDialect, sql } from 'kysely';
import pg from 'pg';
import { DatabaseError, createUnreachableError } from './errors.ts';
import { createKyselyPool } from './kysely-pool.ts';
import type { Listener } from './listener.ts';
import { openPglite } from './pglite.ts';
import { openPostgres } from './postgres.ts';

/**
 * Open database. Use `db` for queries, and `pool` for libraries that run their own SQL. PGlite has one connection, so a
 * query on `db` inside a transaction would wait forever: use the transaction object instead.
 */
export type Database<Schema> = {
  readonly engine: 'pglite' | 'postgres';
  /** Whether no other process can open the database. */
  readonly isExclusive: boolean;
  readonly db: Kysely<Schema>;
  readonly pool: pg.Pool;
  /** Subscribes to a channel; see {@link Listener}. */
  listen: Listener['listen'];
  close: () => Promise<void>;
};

export type ConnectOptions = {
  /** URL of PostgreSQL. Without a URL, the embedded database is used. */
  url?: string | undefined;
  /** Folder of the embedded database. Without a folder, it is in memory. */
  dataDir?: string | undefined;
  /** Initial content of an in-memory embedded database: a PGlite dump. */
  image?: Blob | undefined;
  /** Maximum number of pooled connections to PostgreSQL, 10 by default. Notifications use one more. */
  maxConnections?: number;
  /** Time limit for a query on PostgreSQL, 30 s by default. Does not apply to the statements of migration files. */
  queryTimeoutMs?: number;
  /** Called for errors of idle connections to PostgreSQL, and of the connection for notifications. */
  onError?: (error: Error) => void;
  /** Receives a warning for the operator about risky settings of the server. */
  onWarning?: (message: string) => void;
};

/**
 * Opens a database and checks that it is suitable: PostgreSQL 15 or later, UTF-8, and a locale that supports Cyrillic
 * letters. With the C locale, search misses words, because that locale does not convert Cyrillic letters to lower case.
 * Warns about settings that can lose committed rows.
 * @throws DatabaseError DATABASE_UNREACHABLE, DATABASE_UNSUITABLE, FOLDER_LOCKED or FOLDER_UNUSABLE.
 */
export async function connect<Schema>(options: ConnectOptions): Promise<Database<Schema>> {
  const {
    url,
    dataDir,
    image,
    maxConnections = 10,
    queryTimeoutMs,
    onError = () => undefined,
    onWarning = () => undefined,
  } = options;
  const connection =
    url === undefined
      ? await openPglite(dataDir, image)
      : openPostgres({ url, maxConnections, onError, queryTimeoutMs });
  const { pool, close } = connection;
  try {
    await checkServer(pool);
    if (url !== undefined) await warnAboutDataLoss(pool, onWarning);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    ...connection,
    engine: url === undefined ? 'pglite' : 'postgres',
    isExclusive: url === undefined,
    db: openKysely<Schema>(pool),
  };
}

async function checkServer(pool: pg.Pool): Promise<void> {
  const server = await queryOne<{ version: number; name: string; encoding: string }>(
    pool,
    `select current_setting('server_version_num')::int as version,
            current_setting('server_version') as name,
            current_setting('server_encoding') as encoding`,
  );
  if (server.version < 150_000) {
    throwUnsuitable(`the server has PostgreSQL ${server.name}, but 15 or later is needed`);
  }
  if (server.encoding !== 'UTF8') {
    throwUnsuitable(`the database's encoding is ${server.encoding}: create one with encoding UTF8`);
  }
  // A separate query, because servers with other encodings reject these letters.
  const { lexeme } = await queryOne<{ lexeme: string }>(
    pool,
    `select to_tsvector('simple', 'ОСЕЛЯ')::text as lexeme`,
  );
  if (lexeme !== "'оселя':1") {
    throwUnsuitable(
      "the database's LC_CTYPE does not know Cyrillic letters: create one with locale C.UTF-8 or uk_UA.UTF-8",
    );
  }
}

/** Warns if the server confirms commits before they are on disk. Not an error, because some operators choose this. */
async function warnAboutDataLoss(
  pool: pg.Pool,
  onWarning: (message: string) => void,
): Promise<void> {
  const { disabledSettings } = await queryOne<{ disabledSettings: string | null }>(
    pool,
    `select string_agg(name || ' off (set by: ' || source || ')', ' and ' order by name) as "disabledSettings"
     from pg_settings where name in ('fsync', 'synchronous_commit') and setting = 'off'`,
  );
  if (disabledSettings === null) return;
  onWarning(
    `The database runs with ${disabledSettings}: accepted data, such as a payload with the response 202, can be lost if the ` +
      'server crashes or loses power. Set each of these settings to on at the server, then start again',
  );
}

/** Runs a query that returns one row. Treats all errors as an unreachable server. */
async function queryOne<Row extends pg.QueryResultRow>(pool: pg.Pool, query: string): Promise<Row> {
  try {
    const [row] = (await pool.query<Row>(query)).rows;
    if (row === undefined) throw new Error('an empty response');
    return row;
  } catch (error) {
    throw createUnreachableError(error);
  }
}

function throwUnsuitable(reason: string): never {
  throw new DatabaseError('DATABASE_UNSUITABLE', `The database cannot be used: ${reason}`);
}

/**
 * Checks that the database responds.
 * @throws DatabaseError DATABASE_UNREACHABLE.
 */
export async function ping<Schema>(db: Kysely<Schema>): Promise<void> {
  await sql`select 1`.execute(db);
}

/** Creates a database without a server, for generating documentation. Its pool would connect on the first query. */
export function createOfflineDatabase<Schema>(): Omit<Database<Schema>, 'engine' | 'close'> {
  const pool = new pg.Pool();
  return {
    db: openKysely<Schema>(pool),
    pool,
    listen: () => Promise.resolve(() => Promise.resolve()),
    isExclusive: false,
  };
}

function openKysely<Schema>(pool: pg.Pool): Kysely<Schema> {
  return new Kysely<Schema>({ dialect: new PostgresDialect({ pool: createKyselyPool(pool) }) });
}
