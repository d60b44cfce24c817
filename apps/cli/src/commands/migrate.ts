import type { Command } from 'commander';
import type { Context } from '../context.ts';
import { help } from '../help.ts';

/** `oselya migrate`. Contract 1. */
export function addMigrateCommand(program: Command, context: Context): void {
  const { env, print } = context;
  program
    .command('migrate')
    .description('bring the database up to date and stop')
    .addHelpText(
      'after',
      help(
        'a database: DATABASE_URL, else the embedded one in DATA_DIR.',
        'Services do this by themselves when they start; with several, run it before them.',
      ),
    )
    .action(async () => {
      const assistant = await import('@oselya/assistant');
      const collector = await import('@oselya/collector');
      const { loadConfig } = await import('@oselya/kit');
      const { openDatabase } = await import('./database.ts');
      // The migrations read the collector's variables: all bad values are told at once.
      await using database = await openDatabase<never>(
        loadConfig(collector.configSchema, env),
        context,
      );
      for (const { migrateDatabase } of [assistant, collector]) {
        const { component, applied } = await migrateDatabase(env, database);
        const state = applied.length === 0 ? 'up to date' : `applied ${applied.join(', ')}`;
        print(`${component}: ${state}`);
      }
    });
}
