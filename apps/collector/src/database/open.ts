import { connect, type Database } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import type { Config } from '../config.ts';
import type { Tables } from './tables.ts';

/** A database that holds the tables of several apps, each of which knows its own. */
export type SharedDatabase = Omit<Database<Tables>, 'db'> & { readonly db: object };

/** Connections beside those of the jobs in progress: for requests, leases and the scrape. */
const SPARE_CONNECTIONS = 8;

/** Opens the database, or takes the shared one, which then is not closed. */
export async function openDatabase(
  config: Pick<Config, 'DATABASE_URL' | 'DATA_DIR' | 'COLLECTOR_WORKERS' | 'COLLECTOR_UPLOADS'>,
  log: Logger,
  shared?: SharedDatabase,
): Promise<{ database: Database<Tables>; close: () => Promise<void> }> {
  if (shared !== undefined) {
    // Whatever its owner knows of it: after the migration the collector's tables are there.
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
