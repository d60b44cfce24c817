import { type Command, Option } from 'commander';
import {
  CommandError,
  type Context,
  formatHelp,
  INTERRUPTED_STATUS,
  createInterruptSignal,
  parseSourceSlug,
  warnAboutEmbeddedDatabase,
  parseWholeNumber,
} from '../command.ts';
import { oneLine } from '../terminal.ts';

type Options = {
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

/** Adds `oselya reprocess`, which repeats extractions with the current prompt and model. Contract 1. */
export function addReprocessCommand(program: Command, context: Context): void {
  const command = program
    .command('reprocess')
    .description(
      'have the model read kept payloads again, and see what changes before it is written',
    )
    .addHelpText(
      'after',
      formatHelp(
        'the database of the collector, DATABASE_URL or DATA_DIR, and its model.',
        'It asks before it writes. A stopped run prints how to continue. Stop a collector on the embedded database first.',
      ),
    )
    .option('--source <slug>', 'only listings of this source', parseSourceSlug)
    .option('--listing <id>', 'only this listing', parseWholeNumber)
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
      parseWholeNumber,
    )
    .option('--limit <n>', 'at most this many listings', parseWholeNumber)
    .option('--dry-run', 'write nothing')
    .option('--yes', 'write without a question, each listing as soon as it is read')
    .option('--verbose', 'print every change');
  command.action((options: Options) => run(options, command, context));
}

/** @throws CommandError if the model failed. */
async function run(options: Options, command: Command, context: Context): Promise<void> {
  const { env, stdin, print, exitWith } = context;
  const { dryRun = false, yes = false, verbose = false } = options;
  if (dryRun && yes) command.error('--dry-run writes nothing, and --yes writes: choose one');
  if (!dryRun && !yes && !stdin.isTTY) {
    command.error('there is no terminal to ask at: add --yes, or --dry-run to write nothing');
  }
  const { ModelError, openMaintenance, readConfig } = await import('@oselya/collector');
  const { confirm } = await import('../progress.ts');
  const { reprocess, reprocessImages } = await import('../reprocess/reprocess.ts');
  const interrupt = new AbortController();
  await using maintenance = await openMaintenance(env);
  warnAboutEmbeddedDatabase(readConfig(env, { api: false }), context);
  const choice = { source: options.source, listingId: options.listing, after: options.after };
  const runOptions = {
    limit: options.limit ?? Infinity,
    dryRun,
    yes,
    signal: AbortSignal.any([createInterruptSignal(), interrupt.signal]),
    print,
    output: context,
    confirm: (question: string, signal: AbortSignal | undefined) =>
      confirm(question, { signal, onInterrupt: () => interrupt.abort() }, context),
  };
  const outdated = options.outdated === true ? maintenance.reprocess.current : undefined;
  const { failed, stopped } =
    options.pictures === true
      ? await reprocessImages(maintenance, { choice, ...runOptions })
      : await reprocess(maintenance, { choice: { ...choice, outdated }, verbose, ...runOptions });
  if (stopped === undefined) {
    if (failed > 0) exitWith(1);
    return;
  }
  const { after, error } = stopped;
  const again = after === undefined ? '' : ` with --after ${after}`;
  if (error instanceof ModelError) {
    throw new CommandError(
      `the model failed: ${oneLine(error.message)} Fix it, then give the command again${again} to continue`,
      { cause: error },
    );
  }
  print(`It was stopped: give the command again${again} to continue.`);
  if (error !== undefined) throw error;
  exitWith(INTERRUPTED_STATUS);
}
