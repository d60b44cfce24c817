import { type Command, Option } from 'commander';
import {
  addCommand,
  CommandError,
  type Context,
  createInterruptSignal,
  INTERRUPTED_STATUS,
  openCollector,
  parseSourceSlug,
  parsePositiveInteger,
} from '../command.ts';
import { sanitizeLine } from '../terminal.ts';

type ReprocessCommandOptions = {
  source?: string;
  listing?: number;
  outdated?: boolean;
  pictures?: boolean;
  after?: number;
  limit?: number;
  dryRun?: boolean;
  yes?: boolean;
  verbose?: boolean;
};

/** Adds `oselya reprocess`, which repeats extractions or image descriptions with the current model. Contract 1. */
export function addReprocessCommand(program: Command, context: Context): void {
  addCommand(program, 'reprocess', {
    description:
      'have the model read kept payloads again, and see what changes before it is written',
    needs: 'the database of the collector, DATABASE_URL or DATA_DIR, and its model.',
    note: 'It asks before it writes. A stopped run prints how to continue. Stop a collector on the embedded database first.',
  })
    .option('--source <slug>', 'only listings of this source', parseSourceSlug)
    .option('--listing <id>', 'only this listing', parsePositiveInteger)
    .option('--outdated', 'only listings read by another prompt or model')
    .addOption(
      new Option(
        '--pictures',
        'describe images again instead of reading payloads: those of another prompt or model, or of none',
      ).conflicts(['outdated', 'verbose']),
    )
    .option(
      '--after <id>',
      'only listings with a larger id: a stopped run names it',
      parsePositiveInteger,
    )
    .option('--limit <n>', 'at most this many listings', parsePositiveInteger)
    .option('--dry-run', 'write nothing')
    .option('--yes', 'write without a question, each listing as soon as it is read')
    .option('--verbose', 'print every change')
    .action((options: ReprocessCommandOptions, command: Command) =>
      runReprocess(options, command, context),
    );
}

async function runReprocess(
  options: ReprocessCommandOptions,
  command: Command,
  context: Context,
): Promise<void> {
  const { stdin, print, exitWith } = context;
  const { source, listing: listingId, after, limit = Infinity } = options;
  const { dryRun = false, yes = false, verbose = false } = options;
  if (dryRun && yes) command.error('--dry-run writes nothing, and --yes writes: choose one');
  if (!dryRun && !yes && !stdin.isTTY) {
    command.error('there is no terminal to ask at: add --yes, or --dry-run to write nothing');
  }
  const { ModelError } = await import('@oselya/collector');
  const { confirm } = await import('../progress.ts');
  const { reprocess, reprocessImages } = await import('../reprocess/reprocess.ts');
  const interruptController = new AbortController();
  await using maintenance = await openCollector(context);
  const selection = { source, listingId, after };
  const runOptions = {
    limit,
    dryRun,
    yes,
    signal: AbortSignal.any([createInterruptSignal(), interruptController.signal]),
    context,
    confirm: (question: string, signal?: AbortSignal) =>
      confirm(question, { signal, onInterrupt: () => interruptController.abort() }, context),
  };
  const currentVersion = options.outdated ? maintenance.reprocess.currentExtractor : undefined;
  const { failedCount, earlyStop } = options.pictures
    ? await reprocessImages(maintenance.reprocessImages, { selection, ...runOptions })
    : await reprocess(maintenance, {
        selection: { ...selection, outdated: currentVersion },
        verbose,
        ...runOptions,
      });
  if (earlyStop === undefined) {
    if (failedCount > 0) exitWith(1);
    return;
  }
  const { error } = earlyStop;
  const continuation = earlyStop.after === undefined ? '' : ` with --after ${earlyStop.after}`;
  if (error instanceof ModelError) {
    throw new CommandError(
      `the model failed: ${sanitizeLine(error.message)} Fix it, then run the command again${continuation} to continue`,
      { cause: error },
    );
  }
  print(`Interrupted. Run the command again${continuation} to continue.`);
  if (error !== undefined) throw error;
  exitWith(INTERRUPTED_STATUS);
}
