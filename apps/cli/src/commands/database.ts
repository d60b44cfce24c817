import { resolve } from 'node:path';
import { connect, type ConnectOptions, type Database } from '@oselya/db';
import type { Context } from '../context.ts';

type Config = { DATABASE_URL?: string; DATA_DIR: string };

/**
 * Opens the database that the configuration names, for one command, and says which one that is where none is named.
 * @throws DatabaseError, with a message for who gave the command.
 */
export async function openDatabase<Schema>(
  config: Config,
  context: Pick<Context, 'stderr'>,
  options: Pick<ConnectOptions, 'queryTimeoutMs'> = {},
): Promise<Database<Schema> & AsyncDisposable> {
  const { DATABASE_URL: url, DATA_DIR: dataDir } = config;
  const database = await connect<Schema>({ url, dataDir, ...options });
  tellEmbedded(config, context);
  return { ...database, [Symbol.asyncDispose]: database.close };
}

/**
 * Says which database a command takes where none is named: on a server, whose services have their variables
 * elsewhere, that is not the one that was meant.
 */
export function tellEmbedded(
  { DATABASE_URL: url, DATA_DIR: dataDir }: Config,
  { stderr }: Pick<Context, 'stderr'>,
): void {
  if (url !== undefined) return;
  stderr.write(`DATABASE_URL is not set: the embedded database in ${resolve(dataDir)} is used.\n`);
}
