import type { Command } from 'commander';
import manifest from '../package.json' with { type: 'json' };
import { type Context, OneLineCommand } from './command.ts';
import { addApiKeyCommand } from './commands/api-key.ts';
import { addAssignLegacyCommand } from './commands/assign-legacy.ts';
import { addBackfillCommand } from './commands/backfill-embeddings.ts';
import { addChatCommand } from './commands/chat.ts';
import { addEvaluateCommand } from './commands/evaluate.ts';
import { addIngestCommand } from './commands/ingest.ts';
import { addReprocessCommand } from './commands/reprocess.ts';
import { addSearchCommand } from './commands/search.ts';
import { addServeCommands, addSetUpCommands } from './commands/serve.ts';

const EXIT_STATUS = `
Each command has a --help of its own. Exit status: 0 done, 1 failed, 2 wrong use, 130 interrupted.
A file .env in the working directory is read; see docs/configuration.md.`;

/** Commands in the order of the help. */
const commands: readonly ((program: Command, context: Context) => void)[] = [
  addServeCommands,
  addSetUpCommands,
  addAssignLegacyCommand,
  addIngestCommand,
  addSearchCommand,
  addChatCommand,
  addBackfillCommand,
  addReprocessCommand,
  addEvaluateCommand,
  addApiKeyCommand,
  addInventoryCommand,
];

/**
 * Creates the `oselya` command. Each subcommand imports its dependencies when it runs, so `--help` starts no
 * database. Contract 1.
 */
export function createProgram(context: Context): Command {
  const program = new OneLineCommand('oselya')
    .description('Collect, process and search property listings on your own machine.')
    .version(manifest.version, '-V, --version', 'print the version')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void context.stdout.write(text),
      writeErr: (text) => void context.stderr.write(text),
    })
    .showSuggestionAfterError()
    // `inventory` parses its own arguments.
    .enablePositionalOptions()
    .helpCommand(false)
    .addHelpText('after', EXIT_STATUS);
  for (const add of commands) add(program, context);
  return program;
}

/** Adds `oselya inventory`, which parses its own arguments. Contract 5. */
function addInventoryCommand(program: Command, context: Context): void {
  program
    .command('inventory')
    .description('validate the inventory of network endpoints; see oselya inventory --help')
    .helpOption(false)
    .allowUnknownOption()
    .passThroughOptions()
    .argument('[arguments...]')
    .action(async (args: string[]) => {
      const { runInventoryProcess } = await import('@oselya/inventory/cli');
      context.exitWith(await runInventoryProcess(args, context));
    });
}
