import type { BackfillReport } from '@oselya/collector';
import type { Command } from 'commander';
import { CommandError } from '../command-error.ts';
import type { Context } from '../context.ts';
import { help } from '../help.ts';
import { oneLine } from '../terminal.ts';

/** How many listings that could not be embedded are named. */
const NAMED = 10;

/** `oselya backfill-embeddings`. Specification 001, Behaviour rules, 5; Contract 1. */
export function addBackfillCommand(program: Command, context: Context): void {
  program
    .command('backfill-embeddings')
    .description('fill in embeddings that are missing, or of another text or model')
    .addHelpText(
      'after',
      help(
        'the database of the collector, DATABASE_URL or DATA_DIR, and its model.',
        'It may be stopped at any time and goes on from there. Stop a collector on the embedded database first.',
      ),
    )
    .option('--dry-run', 'only count them')
    .action(async ({ dryRun = false }: { dryRun?: boolean }) => {
      const { env, stderr, print, exitWith } = context;
      const { ModelError, openMaintenance, readConfig } = await import('@oselya/collector');
      const { tellEmbedded } = await import('./database.ts');
      const { INTERRUPTED, onInterrupt } = await import('../interrupt.ts');
      const { showProgress } = await import('../progress.ts');
      const signal = onInterrupt();
      await using maintenance = await openMaintenance(env);
      tellEmbedded(readConfig(env, { api: false }), context);
      let progress: ReturnType<typeof showProgress> | undefined;
      let soFar: Readonly<BackfillReport> | undefined;
      try {
        const report = await maintenance.backfillEmbeddings({
          dryRun,
          signal,
          onProgress(current, total) {
            soFar = current;
            progress ??= showProgress({ what: 'listings', total }, stderr);
            progress.update(current.checked, note(current, dryRun));
          },
        });
        progress?.stop();
        for (const line of describe(report, dryRun)) print(line);
        if (signal.aborted) {
          print('It was stopped: give the command again to go on.');
          exitWith(INTERRUPTED);
        } else if (report.failed.length > 0) {
          throw new CommandError(
            `${report.failed.length} listings could not be embedded: see the reasons above, mend the model or the listings, then give the command again`,
          );
        }
      } catch (error) {
        progress?.stop();
        if (!(error instanceof ModelError)) throw error;
        throw new CommandError(
          `the model failed after ${soFar?.embedded ?? 0} listings: ${oneLine(error.message)} Mend it, then give the command again: it goes on where it stopped`,
          { cause: error },
        );
      }
    });
}

function note({ outdated, embedded }: BackfillReport, dryRun: boolean): string {
  return dryRun ? `${outdated} to embed` : `${embedded} embedded`;
}

function describe(report: BackfillReport, dryRun: boolean): string[] {
  const { checked, outdated, embedded, changed, failed } = report;
  if (dryRun) {
    return [`${outdated} of ${checked} listings need an embedding. Nothing was changed.`];
  }
  const more = failed.length - NAMED;
  return [
    `${embedded} of ${checked} listings were embedded, ${checked - outdated} were up to date.`,
    ...(changed === 0 ? [] : [`${changed} changed meanwhile: their worker embeds them.`]),
    ...failed
      .slice(0, NAMED)
      .map(({ listingId, reason }) => `listing ${listingId}: ${oneLine(reason)}`),
    ...(more > 0 ? [`… and ${more} more`] : []),
  ];
}
