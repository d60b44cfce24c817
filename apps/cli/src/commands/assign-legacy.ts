import type { LegacyReport, Tables } from '@oselya/assistant';
import type { Command } from 'commander';
import { addCommand, CommandError, type Context, openDatabase, parseNonEmpty } from '../command.ts';
import { formatFirstLines, sanitizeLine } from '../terminal.ts';

/** Query timeout for large databases, which is longer than that of a service. */
const QUERY_TIMEOUT_MS = 600_000;

const MAX_NAMED_FACTS = 20;

/** Adds `oselya assign-legacy`. Specification 000, Legacy data; Contract 1. */
export function addAssignLegacyCommand(program: Command, context: Context): void {
  const { env, print } = context;
  addCommand(program, 'assign-legacy', {
    description: 'give a user the sessions and the memory that have no owner',
    needs: 'the database of the assistant: DATABASE_URL or DATA_DIR.',
    note: 'The user must have signed in once. The embedded database is open in one process at a time.',
  })
    .argument('<user-id>', 'the new owner: the id at the identity provider', parseNonEmpty)
    .option('--dry-run', 'only report what would happen')
    .action(async (userId: string, { dryRun = false }: { dryRun?: boolean }) => {
      const { commonConfig, loadConfig } = await import('@oselya/kit');
      const { Type } = await import('typebox');
      const { assignLegacy, isEmptyReport, migrateDatabase, UnknownUserError } =
        await import('@oselya/assistant');
      const config = loadConfig(Type.Object(commonConfig), env);
      const options = { queryTimeoutMs: QUERY_TIMEOUT_MS };
      await using database = await openDatabase<Tables>(config, context, options);
      await migrateDatabase(env, database);
      const report = await assignLegacy(database, { userId, dryRun }).catch((error: unknown) => {
        throw error instanceof UnknownUserError
          ? new CommandError(sanitizeLine(error.message))
          : error;
      });
      if (isEmptyReport(report)) print('Nothing to do: all sessions and all memory have an owner.');
      else print(...describeReport(report, { userId, dryRun }));
    });
}

/** Returns the report of an assignment as lines for a terminal. */
export function describeReport(
  { sessions, facts, summaries }: LegacyReport,
  { userId, dryRun }: { userId: string; dryRun: boolean },
): string[] {
  const owner = sanitizeLine(JSON.stringify(userId));
  const outcomeLabels = {
    none: 'none',
    assigned: 'assigned',
    merged: "merged with the user's own",
  };
  const mergedNote = summaries.legacy > 1 ? ` (${summaries.legacy} as one)` : '';
  return [
    dryRun
      ? `This would become the data of ${owner}. Nothing was changed.`
      : `This is now the data of ${owner}.`,
    `sessions assigned: ${sessions}`,
    `facts assigned: ${facts.assigned}`,
    ...listFacts('replace an older value of the user', facts.replaced),
    ...listFacts("deleted, because the user's own value is newer", facts.kept),
    ...(facts.duplicates === 0 ? [] : [`  deleted as duplicates: ${facts.duplicates}`]),
    `summary: ${outcomeLabels[summaries.outcome]}${mergedNote}`,
  ];
}

function listFacts(title: string, facts: LegacyReport['facts']['kept']): string[] {
  if (facts.length === 0) return [];
  const names = facts.map(
    ({ category, key }) => `${sanitizeLine(category)} / ${sanitizeLine(key)}`,
  );
  return [`  ${title}: ${facts.length}`, ...formatFirstLines(names, MAX_NAMED_FACTS, '    ')];
}
