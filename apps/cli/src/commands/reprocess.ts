import { type Command, Option } from 'commander';
import { sourceSlug, wholeNumber } from '../arguments.ts';
import { CommandError } from '../command-error.ts';
import type { Context } from '../context.ts';
import { help } from '../help.ts';
import type { Stop } from '../reprocess/walk.ts';
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

/** `oselya reprocess`: kept payloads again, under the current prompt and model. Contract 1. */
export function addReprocessCommand(program: Command, context: Context): void {
  const command = program
    .command('reprocess')
    .description(
      'have the model read kept payloads again, and see what changes before it is written',
    )
    .addHelpText(
      'after',
      help(
        'the database of the collector, DATABASE_URL or DATA_DIR, and its model.',
        'It asks before it writes. A run that is stopped says where to go on. Stop a collector on the embedded database first.',
      ),
    )
    .option('--source <slug>', 'only listings of this source', sourceSlug)
    .option('--listing <id>', 'only this listing', wholeNumber)
    .option('--outdated', 'only what was read by another prompt or model')
    .addOption(
      new Option(
        '--pictures',
        'have pictures described again, not payloads read: those of another prompt or model, or of none',
      ).conflicts(['outdated', 'verbose']),
    )
    .option('--after <id>', 'only listings with a larger id: a stopped run names it', wholeNumber)
    .option('--limit <n>', 'at most so many listings', wholeNumber)
    .option('--dry-run', 'write nothing')
    .option('--yes', 'write without being asked, each listing as soon as it is read')
    .option('--verbose', 'print every change');
  command.action((options: Options) => run(options, command, context));
}

/**
 * Reads again what the options choose, and tells how that ended.
 * @throws CommandError where the model failed; else what ended it.
 */
async function run(options: Options, command: Command, context: Context): Promise<void> {
  const { env, stdin, print, exitWith } = context;
  const { dryRun = false, yes = false, verbose = false } = options;
  if (dryRun && yes) command.error('--dry-run writes nothing, and --yes writes: choose one');
  if (!dryRun && !yes && !stdin.isTTY) {
    command.error('there is no terminal to ask at: add --yes, or --dry-run to write nothing');
  }
  const { ModelError, openMaintenance, readConfig } = await import('@oselya/collector');
  const { tellEmbedded } = await import('./database.ts');
  const { INTERRUPTED, onInterrupt } = await import('../interrupt.ts');
  const { ask } = await import('../reprocess/ask.ts');
  const { reprocessPictures } = await import('../reprocess/pictures.ts');
  const { reprocess } = await import('../reprocess/reprocess.ts');
  const refusal = new AbortController();
  const signal = AbortSignal.any([onInterrupt(), refusal.signal]);
  await using maintenance = await openMaintenance(env);
  tellEmbedded(readConfig(env, { api: false }), context);
  const chosen = { source: options.source, listingId: options.listing, after: options.after };
  const limit = options.limit ?? Infinity;
  const how = {
    limit,
    dryRun,
    yes,
    signal,
    print,
    output: context,
    ask: (question: string, takeBack: AbortSignal | undefined) =>
      ask(question, { takeBack, onInterrupt: () => refusal.abort() }, context),
  };

  /** @returns How many listings failed, and what stopped it. */
  async function readAgain(): Promise<{ failed: number; stopped: Stop | undefined }> {
    if (options.pictures === true) {
      const { summary, stopped } = await reprocessPictures(maintenance, {
        choice: chosen,
        ...how,
      });
      return { failed: summary.failed, stopped };
    }
    const outdated = options.outdated === true ? maintenance.reprocess.current : undefined;
    const choice = { ...chosen, outdated };
    const { summary, stopped } = await reprocess(maintenance, { choice, verbose, ...how });
    const { read, written } = summary;
    return { failed: read.failed + written.failed + written.kept + written.incomplete, stopped };
  }

  const { failed, stopped } = await readAgain();
  if (stopped === undefined) {
    if (failed > 0) exitWith(1);
    return;
  }
  const { after, error } = stopped;
  const again = after === undefined ? '' : ` with --after ${after}`;
  if (error instanceof ModelError) {
    throw new CommandError(
      `the model failed: ${oneLine(error.message)} Mend it, then give the command again${again} to go on`,
      { cause: error },
    );
  }
  print(`It was stopped: give the command again${again} to go on.`);
  if (error !== undefined) throw error;
  exitWith(INTERRUPTED);
}
