import {
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresDialect,
  PostgresIntrospector,
  PostgresQueryCompiler,
  sql,
} from 'kysely';
import pg from 'pg';
import { DatabaseError, databaseUnreachable } from './errors.ts';
import { kyselyPool } from './kysely-pool.ts';
import type { Listener } from './listener.ts';
import { openPglite } from './pglite.ts';
import { openPostgres } from './postgres.ts';

/**
 * An open database: `db` for queries, `pool` for libraries with SQL of their own. PGlite has one connection, so inside a
 * transaction a query on `db` would wait for ever: pass the transaction on.
 */
export type Database<Schema> = {
  readonly engine: 'pglite' | 'postgres';
  /** Whether no other process can have it open. */
  readonly isExclusive: boolean;
  readonly db: Kysely<Schema>;
  readonly pool: pg.Pool;
  /** Subscribes to a channel; see {@link Listener}. */
  listen: Listener['listen'];
  close: () => Promise<void>;
};

/** Options of a database. */
export type ConnectOptions = {
  /** Address of PostgreSQL; the embedded database without one. */
  url?: string | undefined;
  /** Folder of the embedded database; without one it is in memory. */
  dataDir?: string | undefined;
  /** Initial content of the embedded database in memory, as PGlite dumps it. */
  image?: Blob | undefined;
  /** Connections to PostgreSQL, 10 by default; notifications have one more. */
  maxConnections?: number;
  /** Limit of a query on PostgreSQL, 30 s by default, except in migrations. */
  queryTimeoutMs?: number;
  /** Called for idle connections that broke. */
  onError?: (error: Error) => void;
  /** Called with a sentence for the operator about risky settings of the server. */
  onWarning?: (message: string) => void;
};

/**
 * Opens the platform's database and checks that it is suitable: PostgreSQL 15 or later, UTF-8, and a character type that
 * knows Cyrillic letters (the C locale does not lower-case them, and search would miss words silently). Settings that can
 * lose committed rows are a warning.
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
  const engine =
    url === undefined
      ? await openPglite(dataDir, image)
      : openPostgres({ url, maxConnections, onError, queryTimeoutMs });
  try {
    await checkServer(engine.pool);
    if (url !== undefined) await warnOfLoss(engine.pool, onWarning);
  } catch (error) {
    await engine.close();
    throw error;
  }
  return {
    engine: url === undefined ? 'pglite' : 'postgres',
    isExclusive: url === undefined,
    db: new Kysely<Schema>({ dialect: new PostgresDialect({ pool: kyselyPool(engine.pool) }) }),
    pool: engine.pool,
    listen: engine.listen,
    close: engine.close,
  };
}

async function checkServer(pool: pg.Pool): Promise<void> {
  const server = await ask<{ version: number; name: string; encoding: string }>(
    pool,
    `select current_setting('server_version_num')::int as version,
            current_setting('server_version') as name,
            current_setting('server_encoding') as encoding`,
  );
  if (server.version < 150_000) {
    unsuitable(`PostgreSQL 15 or later is needed, this server is ${server.name}`);
  }
  if (server.encoding !== 'UTF8') {
    unsuitable(`the database's encoding is ${server.encoding}: create one with encoding UTF8`);
  }
  // A separate query: with another encoding the server cannot read these letters.
  const { lexeme } = await ask<{ lexeme: string }>(
    pool,
    `select to_tsvector('simple', 'ОСЕЛЯ')::text as lexeme`,
  );
  if (lexeme !== "'оселя':1") {
    unsuitable(
      "the database's LC_CTYPE does not know Cyrillic letters: create one with locale C.UTF-8 or uk_UA.UTF-8",
    );
  }
}

/** Warns where the server confirms commits before they reach its disk, which some operators want. */
async function warnOfLoss(pool: pg.Pool, onWarning: (message: string) => void): Promise<void> {
  const { found } = await ask<{ found: string | null }>(
    pool,
    `select string_agg(name || ' off (set by: ' || source || ')', ' and ' order by name) as found
     from pg_settings where name in ('fsync', 'synchronous_commit') and setting = 'off'`,
  );
  if (found === null) return;
  onWarning(
    `The database runs with ${found}: what was accepted, such as a payload answered with 202, can be lost when its ` +
      'server crashes or loses power. Set it to on there, and start again',
  );
}

/** Runs a query with one row, which only fails when the server does not answer. */
async function ask<Row extends pg.QueryResultRow>(pool: pg.Pool, query: string): Promise<Row> {
  try {
    const [row] = (await pool.query<Row>(query)).rows;
    if (row === undefined) throw new Error('an empty answer');
    return row;
  } catch (error) {
    throw databaseUnreachable(error);
  }
}

function unsuitable(why: string): never {
  throw new DatabaseError('DATABASE_UNSUITABLE', `The database cannot be used: ${why}`);
}

/**
 * Checks that the database answers.
 * @throws DatabaseError DATABASE_UNREACHABLE.
 */
export async function ping<Schema>(db: Kysely<Schema>): Promise<void> {
  await sql`select 1`.execute(db);
}

/** Returns a database without rows, for apps that only describe themselves, and tests without queries. */
export function offlineDatabase<Schema>(): Pick<
  Database<Schema>,
  'db' | 'pool' | 'listen' | 'isExclusive'
> {
  const db = new Kysely<Schema>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (own) => new PostgresIntrospector(own),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  });
  // A pool connects with its first query, and there is none.
  return {
    db,
    pool: new pg.Pool(),
    listen: () => Promise.resolve(() => Promise.resolve()),
    isExclusive: false,
  };
}
