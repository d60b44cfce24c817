import { configSchema as collectorConfig } from '@oselya/collector';
import { connect, type Database } from '@oselya/db';
import { loadConfig } from '@oselya/kit';

/**
 * Opens the database that the environment names, for one command.
 * @throws ConfigError also for what the migrations then read of the collector's variables, so that
 * all bad values are told at once.
 */
export async function openDatabase<Schema>(
  env: NodeJS.ProcessEnv,
): Promise<Database<Schema> & AsyncDisposable> {
  const config = loadConfig(collectorConfig, env);
  const database = await connect<Schema>({ url: config.DATABASE_URL, dataDir: config.DATA_DIR });
  return { ...database, [Symbol.asyncDispose]: database.close };
}
