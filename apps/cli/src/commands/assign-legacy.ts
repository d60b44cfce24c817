import type { Tables } from '@oselya/assistant';
import { type Command, InvalidArgumentError } from 'commander';
import { CommandError } from '../command-error.ts';
import type { Context } from '../context.ts';
import { help } from '../help.ts';
import { oneLine } from '../terminal.ts';

/** A store of many years takes longer than the queries of a service do. */
const QUERY_TIMEOUT_MS = 600_000;

/** `oselya assign-legacy`. Specification 000, Legacy data; Contract 1. */
export function addAssignLegacyCommand(program: Command, context: Context): void {
  const { env, print } = context;
  program
    .command('assign-legacy')
    .description('give a user the sessions and the memory that have no owner')
    .addHelpText(
      'after',
      help(
        'the database of the assistant: DATABASE_URL or DATA_DIR.',
        'The user must have signed in once. The embedded database is open in one process at a time.',
      ),
    )
    .argument('<user-id>', 'who is to own them: the id at the identity provider', toUserId)
    .option('--dry-run', 'only tell what would happen')
    .action(async (userId: string, { dryRun = false }: { dryRun?: boolean }) => {
      const { commonConfig, loadConfig } = await import('@oselya/kit');
      const { Type } = await import('typebox');
      const config = loadConfig(Type.Object(commonConfig), env);
      const { assignLegacy, migrateDatabase, UnknownUserError } = await import('@oselya/assistant');
      const { openDatabase } = await import('./database.ts');
      const { describeAdoption } = await import('./legacy-report.ts');
      await using database = await openDatabase<Tables>(config, context, {
        queryTimeoutMs: QUERY_TIMEOUT_MS,
      });
      await migrateDatabase(env, database);
      const report = await assignLegacy(database, { userId, dryRun }).catch((error: unknown) => {
        throw error instanceof UnknownUserError ? new CommandError(oneLine(error.message)) : error;
      });
      for (const line of describeAdoption(report, { userId, dryRun })) print(line);
    });
}

/** An empty one comes of a variable that is not set, where somebody may expect anything but nobody. */
function toUserId(value: string): string {
  if (value.trim() === '')
    throw new InvalidArgumentError('Name the user: the id must not be empty.');
  return value;
}
