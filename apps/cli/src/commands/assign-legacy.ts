import type { LegacyReport, Tables } from '@oselya/assistant';
import { type Command, InvalidArgumentError } from 'commander';
import { CommandError, type Context, formatHelp, openDatabase } from '../command.ts';
import { oneLine } from '../terminal.ts';

/** Large databases need more time than the queries of a service. */
const QUERY_TIMEOUT_MS = 600_000;

const MAX_NAMED_FACTS = 20;

/** `oselya assign-legacy`. Specification 000, Legacy data; Contract 1. */
export function addAssignLegacyCommand(program: Command, context: Context): void {
  const { env, print } = context;
  program
    .command('assign-legacy')
    .description('give a user the sessions and the memory that have no owner')
    .addHelpText(
      'after',
      formatHelp(
        'the database of the assistant: DATABASE_URL or DATA_DIR.',
        'The user must have signed in once. The embedded database is open in one process at a time.',
      ),
    )
    .argument('<user-id>', 'the new owner: the id at the identity provider', (value: string) => {
      // An empty value usually comes from an unset shell variable.
      if (value.trim() !== '') return value;
      throw new InvalidArgumentError('Name the user: the id must not be empty.');
    })
    .option('--dry-run', 'only report what would happen')
    .action(async (userId: string, { dryRun = false }: { dryRun?: boolean }) => {
      const { commonConfig, loadConfig } = await import('@oselya/kit');
      const { Type } = await import('typebox');
      const config = loadConfig(Type.Object(commonConfig), env);
      const { assignLegacy, isEmptyReport, migrateDatabase, UnknownUserError } =
        await import('@oselya/assistant');
      await using database = await openDatabase<Tables>(config, context, {
        queryTimeoutMs: QUERY_TIMEOUT_MS,
      });
      await migrateDatabase(env, database);
      const report = await assignLegacy(database, { userId, dryRun }).catch((error: unknown) => {
        throw error instanceof UnknownUserError ? new CommandError(oneLine(error.message)) : error;
      });
      const lines = isEmptyReport(report)
        ? ['Nothing to do: all sessions and all memory have an owner.']
        : describeReport(report, { userId, dryRun });
      for (const line of lines) print(line);
    });
}

/** Returns the report of an assignment as lines for a terminal. */
export function describeReport(
  { sessions, facts, summaries }: LegacyReport,
  { userId, dryRun }: { userId: string; dryRun: boolean },
): string[] {
  const owner = oneLine(JSON.stringify(userId));
  const outcome = { none: 'none', assigned: 'assigned', merged: "merged with the user's own" };
  const merged = summaries.legacy > 1 ? ` (${summaries.legacy} as one)` : '';
  return [
    dryRun
      ? `This would become the data of ${owner}. Nothing was changed.`
      : `This is now the data of ${owner}.`,
    `sessions assigned: ${sessions}`,
    `facts assigned: ${facts.assigned}`,
    ...named('replace an older value of the user', facts.replaced),
    ...named("deleted, because the user's own value is newer", facts.kept),
    ...(facts.doubles === 0 ? [] : [`  deleted as doubles of the same name: ${facts.doubles}`]),
    `summary: ${outcome[summaries.outcome]}${merged}`,
  ];
}

function named(what: string, names: LegacyReport['facts']['kept']): string[] {
  if (names.length === 0) return [];
  const lines = names
    .slice(0, MAX_NAMED_FACTS)
    .map(({ category, key }) => `    ${oneLine(category)} / ${oneLine(key)}`);
  const more = names.length - lines.length;
  return [`  ${what}: ${names.length}`, ...lines, ...(more > 0 ? [`    … and ${more} more`] : [])];
}
