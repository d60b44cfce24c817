import { statSync } from 'node:fs';
import { type Command, CommanderError } from 'commander';
import manifest from '../package.json' with { type: 'json' };
import { CommandError, type Context, type Io, OneLineCommand } from './command.ts';
import { addApiKeyCommand } from './commands/api-key.ts';
import { addAssignLegacyCommand } from './commands/assign-legacy.ts';
import { addBackfillCommand } from './commands/backfill-embeddings.ts';
import { addChatCommand } from './commands/chat.ts';
import { addEvaluateCommand } from './commands/evaluate.ts';
import { addIngestCommand } from './commands/ingest.ts';
import { addRatesCommand } from './commands/rates.ts';
import { addReprocessCommand } from './commands/reprocess.ts';
import { addSearchCommand } from './commands/search.ts';
import { addServeCommands, addSetUpCommands } from './commands/serve.ts';

/**
 * Runs the `oselya` command in this process. A `.env` file in the working directory adds variables that the
 * environment does not set.
 * @returns The exit status. Contract 1.
 */
export async function main(args: string[]): Promise<number> {
  const { env, stdin, stdout, stderr } = process;
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    // A reader such as `head` may close the pipe early. The command still finishes.
    if (error.code === 'EPIPE') return;
    process.once('exit', () => {
      if (process.exitCode) return;
      stderr.write(`oselya: cannot write to standard output: ${error.message}\n`);
      process.exitCode = 1;
    });
  });
  stderr.on('error', () => undefined);
  try {
    // A folder named `.env`, such as a Python environment, is ignored. Named pipes are read.
    if (statSync('.env', { throwIfNoEntry: false })?.isDirectory() === false) {
      process.loadEnvFile('.env');
    }
  } catch (error) {
    stderr.write(
      `oselya: .env cannot be read (${String(error)}): let this user read it, or move it away\n`,
    );
    // For `inventory`, status 1 means an invalid inventory. Contract 5.
    return args[0] === 'inventory' ? 2 : 1;
  }
  return run(args, { env, stdin, stdout, stderr });
}

/**
 * Runs the `oselya` command with the given arguments and streams.
 * @returns The exit status: 0 done, 1 failed, 2 usage error, 130 interrupted (Contract 1). `inventory` returns its own
 *   (Contract 5).
 * @throws Errors without a message for the user.
 */
export async function run(args: string[], io: Io): Promise<number> {
  let status = 0;
  const program = createProgram({
    ...io,
    print: (...lines) => {
      for (const line of lines) io.stdout.write(`${line}\n`);
    },
    exitWith: (code) => {
      status = code;
    },
  });
  try {
    await program.parseAsync(args, { from: 'user' });
    return status;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (!(error instanceof Error) || !(await hasUserMessage(error))) throw error;
    io.stderr.write(`oselya: ${error.message}\n`);
    return 1;
  }
}

async function hasUserMessage(error: Error): Promise<boolean> {
  if (error instanceof CommandError) return true;
  const { DatabaseError } = await import('@oselya/db');
  const { StartError } = await import('@oselya/kit');
  return error instanceof StartError || error instanceof DatabaseError;
}

const EXIT_STATUS_HELP = `
Each command has a --help of its own. Exit status: 0 done, 1 failed, 2 usage error, 130 interrupted.
A file .env in the working directory is read; see docs/configuration.md.`;

const commandRegistrations: readonly ((program: Command, context: Context) => void)[] = [
  addServeCommands,
  addSetUpCommands,
  addAssignLegacyCommand,
  addIngestCommand,
  addSearchCommand,
  addChatCommand,
  addBackfillCommand,
  addReprocessCommand,
  addEvaluateCommand,
  addRatesCommand,
  addApiKeyCommand,
  addInventoryCommand,
];

/**
 * Creates the `oselya` command. Each subcommand imports its dependencies when it runs, so `--help` starts no
 * database. Contract 1.
 */
function createProgram(context: Context): Command {
  const program = new OneLineCommand('oselya')
    .description('Collect, process and search property listings on your own machine.')
    .version(manifest.version, '-V, --version', 'print the version')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void context.stdout.write(text),
      writeErr: (text) => void context.stderr.write(text),
    })
    .showSuggestionAfterError()
    // `passThroughOptions` of `inventory` requires positional options.
    .enablePositionalOptions()
    .helpCommand(false)
    .addHelpText('after', EXIT_STATUS_HELP);
  for (const addCommand of commandRegistrations) addCommand(program, context);
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
