import { connect, type Database } from '@oselya/db';
import { commonConfig, loadConfig } from '@oselya/kit';
import { Type } from 'typebox';

/** Opens the database that the environment names, for one command. */
export async function openDatabase<Schema>(
  env: NodeJS.ProcessEnv,
): Promise<Database<Schema> & AsyncDisposable> {
  const config = loadConfig(Type.Object(commonConfig), env);
  const database = await connect<Schema>({ url: config.DATABASE_URL, dataDir: config.DATA_DIR });
  return { ...database, [Symbol.asyncDispose]: database.close };
}
