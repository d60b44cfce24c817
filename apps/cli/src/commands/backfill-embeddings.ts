import type { BackfillReport } from '@oselya/collector';
import type { Command } from 'commander';
import {
  addCommand,
  CommandError,
  type Context,
  createInterruptSignal,
  INTERRUPTED_STATUS,
  openCollector,
} from '../command.ts';
import { formatFirstLines, sanitizeLine } from '../terminal.ts';

const MAX_NAMED_FAILURES = 10;

/** Adds `oselya backfill-embeddings`. Specification 001, Behaviour rules, 5; Contract 1. */
export function addBackfillCommand(program: Command, context: Context): void {
  addCommand(program, 'backfill-embeddings', {
    description: 'fill in embeddings that are missing, or of another text or model',
    needs: 'the database of the collector, DATABASE_URL or DATA_DIR, and its model.',
    note: 'It may be stopped at any time and continues from there. Stop a collector on the embedded database first.',
  })
    .option('--dry-run', 'only count them')
    .action(({ dryRun = false }: { dryRun?: boolean }) => runBackfill(dryRun, context));
}

async function runBackfill(dryRun: boolean, context: Context): Promise<void> {
  const { stderr, print, exitWith } = context;
  const { ModelError } = await import('@oselya/collector');
  const { showProgress } = await import('../progress.ts');
  const signal = createInterruptSignal();
  await using maintenance = await openCollector(context);
  let progress: ReturnType<typeof showProgress> | undefined;
  let embeddedCount = 0;
  const report = await maintenance
    .backfillEmbeddings({
      dryRun,
      signal,
      onProgress(counts, total) {
        embeddedCount = counts.embedded;
        progress ??= showProgress({ unit: 'listings', total }, stderr);
        const note = dryRun ? `${counts.outdated} to embed` : `${embeddedCount} embedded`;
        progress.update(counts.checked, note);
      },
    })
    .catch((cause: unknown) => {
      if (!(cause instanceof ModelError)) throw cause;
      throw new CommandError(
        `the model failed after ${embeddedCount} listings: ${sanitizeLine(cause.message)} Fix it, then run the command again: it continues where it stopped`,
        { cause },
      );
    })
    .finally(() => progress?.stop());
  print(...describeReport(report, dryRun));
  if (signal.aborted) {
    print('Interrupted. Run the command again to continue.');
    exitWith(INTERRUPTED_STATUS);
  } else if (report.failed.length > 0) {
    throw new CommandError(
      `${report.failed.length} listings could not be embedded: see the reasons above, fix the model or the listings, then run the command again`,
    );
  }
}

function describeReport(report: BackfillReport, dryRun: boolean): string[] {
  const { checked, outdated, embedded, changed, failed } = report;
  if (dryRun) {
    return [`${outdated} of ${checked} listings need an embedding. Nothing was changed.`];
  }
  const failures = failed.map(
    ({ listingId, reason }) => `listing ${listingId}: ${sanitizeLine(reason)}`,
  );
  return [
    `${embedded} of ${checked} listings were embedded, ${checked - outdated} were up to date.`,
    ...(changed === 0 ? [] : [`${changed} changed in the meantime: their worker embeds them.`]),
    ...formatFirstLines(failures, MAX_NAMED_FAILURES),
  ];
}
