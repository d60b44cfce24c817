import { migrateDatabase as migrateAssistant } from '@oselya/assistant';
import { migrateDatabase as migrateCollector } from '@oselya/collector';
import { openDatabase } from './database.ts';

/** Brings the tables of the assistant and the collector up to date, and says what it did. */
export async function migrateAll(options: {
  env: NodeJS.ProcessEnv;
  print: (line: string) => void;
}): Promise<void> {
  const { env, print } = options;
  await using database = await openDatabase<never>(env);
  for (const migrate of [migrateAssistant, migrateCollector]) {
    const { component, applied } = await migrate(env, database);
    print(`${component}: ${applied.length === 0 ? 'up to date' : `applied ${applied.join(', ')}`}`);
  }
}
