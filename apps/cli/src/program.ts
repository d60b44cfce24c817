import type { Command } from 'commander';
import manifest from '../package.json' with { type: 'json' };
import { addApiKeyCommand } from './commands/api-key.ts';
import { addAssignLegacyCommand } from './commands/assign-legacy.ts';
import { addChatCommand } from './commands/chat.ts';
import { addBackfillCommand } from './commands/backfill-embeddings.ts';
import { addDevCommand } from './commands/dev.ts';
import { addEvaluateCommand } from './commands/evaluate.ts';
import { addIngestCommand } from './commands/ingest.ts';
import { addInventoryCommand } from './commands/inventory.ts';
import { addKeygenCommand } from './commands/keygen.ts';
import { addMigrateCommand } from './commands/migrate.ts';
import { addReprocessCommand } from './commands/reprocess.ts';
import { addSearchCommand } from './commands/search.ts';
import { addServeCommands } from './commands/serve.ts';
import { OneLineCommand } from './one-line-command.ts';
import type { Context } from './context.ts';

const EXIT_STATUS = `
Each command has a --help of its own. Exit status: 0 done, 1 failed, 2 wrong use, 130 interrupted.
A file .env in the working directory is read; see docs/configuration.md.`;

/** The commands in the order in which help lists them. */
const commands: readonly ((program: Command, context: Context) => void)[] = [
  addDevCommand,
  addServeCommands,
  addMigrateCommand,
  addKeygenCommand,
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
 * The `oselya` command and all that it can do. Each command loads what it needs when it runs, so that
 * `--help` does not start a database. Contract 1.
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
    // What follows `inventory` is read by that command alone.
    .enablePositionalOptions()
    .helpCommand(false)
    .addHelpText('after', EXIT_STATUS);
  for (const add of commands) add(program, context);
  return program;
}
