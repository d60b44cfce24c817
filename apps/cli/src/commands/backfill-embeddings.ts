import type { BackfillReport } from '@oselya/collector';
import type { Command } from 'commander';
import {
  CommandError,
  type Context,
  formatHelp,
  INTERRUPTED_STATUS,
  createInterruptSignal,
  warnAboutEmbeddedDatabase,
} from '../command.ts';
import { oneLine } from '../terminal.ts';

const MAX_NAMED_FAILURES = 10;

/** `oselya backfill-embeddings`. Specification 001, Behaviour rules, 5; Contract 1. */
export function addBackfillCommand(program: Command, context: Context): void {
  program
    .command('backfill-embeddings')
    .description('fill in embeddings that are missing, or of another text or model')
    .addHelpText(
      'after',
      formatHelp(
        'the database of the collector, DATABASE_URL or DATA_DIR, and its model.',
        'It may be stopped at any time and continues from there. Stop a collector on the embedded database first.',
      ),
    )
    .option('--dry-run', 'only count them')
    .action(({ dryRun = false }: { dryRun?: boolean }) => backfill(dryRun, context));
}

async function backfill(dryRun: boolean, context: Context): Promise<void> {
  const { env, stderr, print, exitWith } = context;
  const { ModelError, openMaintenance, readConfig } = await import('@oselya/collector');
  const { showProgress } = await import('../progress.ts');
  const signal = createInterruptSignal();
  await using maintenance = await openMaintenance(env);
  warnAboutEmbeddedDatabase(readConfig(env, { api: false }), context);
  let progress: ReturnType<typeof showProgress> | undefined;
  let embedded = 0;
  const report = await maintenance
    .backfillEmbeddings({
      dryRun,
      signal,
      onProgress(current, total) {
        ({ embedded } = current);
        progress ??= showProgress({ what: 'listings', total }, stderr);
        progress.update(
          current.checked,
          dryRun ? `${current.outdated} to embed` : `${embedded} embedded`,
        );
      },
    })
    .catch((cause: unknown) => {
      if (!(cause instanceof ModelError)) throw cause;
      throw new CommandError(
        `the model failed after ${embedded} listings: ${oneLine(cause.message)} Fix it, then give the command again: it continues where it stopped`,
        { cause },
      );
    })
    .finally(() => progress?.stop());
  for (const line of describe(report, dryRun)) print(line);
  if (signal.aborted) {
    print('It was stopped: give the command again to continue.');
    exitWith(INTERRUPTED_STATUS);
  } else if (report.failed.length > 0) {
    throw new CommandError(
      `${report.failed.length} listings could not be embedded: see the reasons above, fix the model or the listings, then give the command again`,
    );
  }
}

function describe(report: BackfillReport, dryRun: boolean): string[] {
  const { checked, outdated, embedded, changed, failed } = report;
  if (dryRun) {
    return [`${outdated} of ${checked} listings need an embedding. Nothing was changed.`];
  }
  const more = failed.length - MAX_NAMED_FAILURES;
  return [
    `${embedded} of ${checked} listings were embedded, ${checked - outdated} were up to date.`,
    ...(changed === 0 ? [] : [`${changed} changed meanwhile: their worker embeds them.`]),
    ...failed
      .slice(0, MAX_NAMED_FAILURES)
      .map(({ listingId, reason }) => `listing ${listingId}: ${oneLine(reason)}`),
    ...(more > 0 ? [`… and ${more} more`] : []),
  ];
}
