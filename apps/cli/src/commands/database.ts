import { connect, type ConnectOptions, type Database } from '@oselya/db';

/**
 * Opens the database that the configuration names, for one command.
 * @throws DatabaseError, with a message for who gave the command.
 */
export async function openDatabase<Schema>(
  config: { DATABASE_URL?: string; DATA_DIR: string },
  options: Pick<ConnectOptions, 'queryTimeoutMs'> = {},
): Promise<Database<Schema> & AsyncDisposable> {
  const { DATABASE_URL: url, DATA_DIR: dataDir } = config;
  const database = await connect<Schema>({ url, dataDir, ...options });
  return { ...database, [Symbol.asyncDispose]: database.close };
}
