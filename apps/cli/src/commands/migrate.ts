import { migrateDatabase as migrateAssistant } from '@oselya/assistant';
import { configSchema, migrateDatabase as migrateCollector } from '@oselya/collector';
import { loadConfig } from '@oselya/kit';
import { openDatabase } from './database.ts';

/** Brings the tables of the assistant and the collector up to date, and says what it did. */
export async function migrateAll(options: {
  env: NodeJS.ProcessEnv;
  print: (line: string) => void;
}): Promise<void> {
  const { env, print } = options;
  // The migrations read the collector's variables: all bad values are told at once.
  await using database = await openDatabase<never>(loadConfig(configSchema, env));
  for (const migrate of [migrateAssistant, migrateCollector]) {
    const { component, applied } = await migrate(env, database);
    print(`${component}: ${applied.length === 0 ? 'up to date' : `applied ${applied.join(', ')}`}`);
  }
}
