import { join } from 'node:path';
import { connect, type Database, type MigrateOptions } from '@oselya/db';
import { type Logger, StartError } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import type { Config } from './config.ts';
import type { Tables } from './tables.ts';

/** A database with the tables of several apps. */
export type SharedDatabase = Omit<Database<Tables>, 'db'> & { readonly db: object };

/** Additional connections for requests, leases and metrics. */
const SPARE_CONNECTIONS = 8;

/**
 * Opens the database, or uses the shared database, which `close` leaves open.
 * @throws DatabaseError
 */
export async function openDatabase(
  config: Pick<Config, 'DATABASE_URL' | 'DATA_DIR' | 'COLLECTOR_WORKERS' | 'COLLECTOR_UPLOADS'>,
  log: Logger,
  shared?: SharedDatabase,
): Promise<{ database: Database<Tables>; close: () => Promise<void> }> {
  if (shared !== undefined) {
    // The cast is safe, because a migration creates the collector's tables before their first use.
    return { database: shared as Database<Tables>, close: () => Promise.resolve() };
  }
  const database = await connect<Tables>({
    url: config.DATABASE_URL,
    dataDir: config.DATA_DIR,
    maxConnections: config.COLLECTOR_WORKERS + config.COLLECTOR_UPLOADS + SPARE_CONNECTIONS,
    onError: (error) => log.warn({ err: error }, 'a database connection broke'),
    onWarning: (message) => log.warn(message),
  });
  return { database, close: () => database.close() };
}

/** Returns the options of `migrate` for the collector's tables. */
export function getMigrateOptions(config: Pick<Config, 'EMBEDDING_DIMENSIONS'>): MigrateOptions {
  return {
    component: 'collector',
    folder: join(import.meta.dirname, '../migrations'),
    variables: { embedding_dimensions: config.EMBEDDING_DIMENSIONS },
  };
}

/**
 * Checks that the database can store and search the configured embeddings.
 * @throws StartError if pgvector is missing or too old, or if the width of the column differs.
 */
export async function checkVectorSupport(db: Kysely<Tables>, dimensions: number): Promise<void> {
  // Earlier versions lack iterative scans, so a filtered search returns too few rows.
  const { rows } = await sql<{ version: string; isRecent: boolean; width: number }>`
    select extversion as version,
           string_to_array(extversion, '.')::integer[] >= array[0, 8] as "isRecent",
           (select atttypmod from pg_attribute
            where attrelid = 'property_listings'::regclass and attname = 'embedding') as width
    from pg_extension where extname = 'vector'`.execute(db);
  const { version = 'missing', isRecent = false, width } = rows[0] ?? {};
  if (!isRecent) {
    throw new StartError(
      `The database has pgvector ${version}, but 0.8 or later is needed: install a newer version, then run "alter extension vector update"`,
    );
  }
  if (width !== dimensions) {
    throw new StartError(
      `EMBEDDING_DIMENSIONS is ${dimensions}, but the database holds embeddings of ${width} numbers: set EMBEDDING_DIMENSIONS=${width} and a model of that width, or use a new database`,
    );
  }
}
