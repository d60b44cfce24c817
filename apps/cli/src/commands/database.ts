import { resolve } from 'node:path';
import { connect, type ConnectOptions, type Database } from '@oselya/db';
import type { Context } from '../context.ts';

/**
 * Opens the database that the configuration names, for one command. Where none is named it says which one it takes:
 * on a server, whose services have their variables elsewhere, that is not the one that was meant.
 * @throws DatabaseError, with a message for who gave the command.
 */
export async function openDatabase<Schema>(
  config: { DATABASE_URL?: string; DATA_DIR: string },
  { stderr }: Pick<Context, 'stderr'>,
  options: Pick<ConnectOptions, 'queryTimeoutMs'> = {},
): Promise<Database<Schema> & AsyncDisposable> {
  const { DATABASE_URL: url, DATA_DIR: dataDir } = config;
  const database = await connect<Schema>({ url, dataDir, ...options });
  if (url === undefined) {
    stderr.write(
      `DATABASE_URL is not set: the embedded database in ${resolve(dataDir)} is used.\n`,
    );
  }
  return { ...database, [Symbol.asyncDispose]: database.close };
}
