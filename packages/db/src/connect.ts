import { Kysely, PostgresDialect } from 'kysely';
import type pg from 'pg';
import type { Database } from './database.ts';
import { DatabaseError, databaseUnreachable } from './errors.ts';
import { kyselyPool } from './kysely-pool.ts';
import { openPglite } from './pglite.ts';
import { openPostgres } from './postgres.ts';

/** Which database, and how it is used. */
export type ConnectOptions = {
  /** PostgreSQL address. Without one the embedded database is used. */
  url?: string | undefined;
  /** Folder of the embedded database; without one it is in memory. */
  dataDir?: string | undefined;
  /** What the embedded database in memory begins with, as PGlite dumps it; a new one unless given. */
  image?: Blob | undefined;
  /** To PostgreSQL at once, 10 unless told; one more hears notifications. */
  maxConnections?: number;
  /** How long PostgreSQL may take to answer a query, 30 s unless told; migrations are exempt. */
  queryTimeoutMs?: number;
  /** Told of connections that broke while nobody was using them. */
  onError?: (error: Error) => void;
  /** Told, in a sentence for the person who runs the platform, what of the server's settings is a risk. */
  onWarning?: (message: string) => void;
};

/**
 * Opens the platform's database and makes sure that it can serve: PostgreSQL 15 or later, UTF-8, and
 * a character type that knows Cyrillic letters (the C locale of some servers does not lower-case
 * them, and search would miss words silently). One that may forget in a crash what it has confirmed serves, with a
 * warning.
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
  // A query of its own: with another encoding the server could not even read these letters.
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

/** Warns where the server confirms commits before they are on its disk. Some want that, so it is not refused. */
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

/** The one row of a query that only fails when the server does not answer. */
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
