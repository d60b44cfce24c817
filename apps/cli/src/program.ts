import type { Command } from 'commander';
import manifest from '../package.json' with { type: 'json' };
import { addApiKeyCommand } from './commands/api-key.ts';
import { addAssignLegacyCommand } from './commands/assign-legacy.ts';
import { addBackfillCommand } from './commands/backfill-embeddings.ts';
import { addEvaluateCommand } from './commands/evaluate.ts';
import { addIngestCommand } from './commands/ingest.ts';
import { addReprocessCommand } from './commands/reprocess.ts';
import { addSearchCommand } from './commands/search.ts';
import { serve } from './commands/serve.ts';
import { help } from './help.ts';
import { OneLineCommand } from './one-line-command.ts';
import type { Context } from './context.ts';

const EXIT_STATUS = `
Each command has a --help of its own. Exit status: 0 done, 1 failed, 2 wrong use, 130 interrupted.
A file .env in the working directory is read; see docs/configuration.md.`;

/**
 * The `oselya` command and all that it can do. Each command loads what it needs when it runs, so that
 * `--help` does not start a database. Contract 1.
 */
export function createProgram(context: Context): Command {
  const { env, print } = context;
  const program = new OneLineCommand('oselya')
    .description('Collect, process and search property listings on your own machine.')
    .version(manifest.version, '-V, --version', 'print the version')
    .exitOverride()
    .showSuggestionAfterError()
    // What follows `inventory` is read by that command alone.
    .enablePositionalOptions()
    .helpCommand(false)
    .addHelpText('after', EXIT_STATUS);

  program
    .command('dev')
    .description('run everything in one process with development sign-in and sample listings')
    .addHelpText(
      'after',
      help(
        'nothing: secrets and data are made in DATA_DIR (var).',
        'It is for trying things out: a real identity provider needs oselya assistant.',
      ),
    )
    .action(async () => {
      const { dev } = await import('./dev/dev.ts');
      await dev({ env, print });
    });
  // What npm calls it. Whoever looks for it here is told the name.
  program
    .command('start', { hidden: true })
    .helpOption(false)
    .allowUnknownOption()
    .allowExcessArguments()
    .action(() => program.error("unknown command 'start' (Did you mean dev?)"));
  program
    .command('assistant')
    .description('serve the assistant: sign-in, roles, ownership')
    .addHelpText(
      'after',
      help(
        'SVC_AUTH_ENCRYPTION_KEY, and IDP_BASE_URL, IDP_CLIENT_ID and IDP_CLIENT_SECRET for sign-in.',
        'How to set up the identity provider is in docs/sign-in.md.',
      ),
    )
    .action(() => serve('assistant', env));
  program
    .command('collector')
    .description('serve the collector API, and run a worker unless COLLECTOR_WORKER=false')
    .addHelpText(
      'after',
      help(
        'nothing on a loopback address, and COLLECTOR_AUTH on any other.',
        'A real model is set with MODEL_MODE=openai and the variables beside it.',
      ),
    )
    .action(() => serve('collector', env));
  program
    .command('worker')
    .description('process the queue of the collector without serving its API')
    .addHelpText(
      'after',
      help(
        'the DATABASE_URL and the image store of the collector.',
        'COLLECTOR_WORKERS is how many jobs it has in progress at once.',
      ),
    )
    .action(() => serve('worker', env));
  program
    .command('migrate')
    .description('bring the database up to date and stop')
    .addHelpText(
      'after',
      help(
        'a database: DATABASE_URL, else the embedded one in DATA_DIR.',
        'Services do this by themselves when they start; with several, run it before them.',
      ),
    )
    .action(async () => {
      const { migrateAll } = await import('./commands/migrate.ts');
      await migrateAll({ env, print });
    });
  program
    .command('keygen')
    .description('print a new encryption key for SVC_AUTH_ENCRYPTION_KEY')
    .addHelpText(
      'after',
      help(
        'nothing, and keeps nothing.',
        'All processes on one database share one key; how to replace it is in docs/sign-in.md.',
      ),
    )
    .action(async () => {
      const { generateKey } = await import('./commands/keygen.ts');
      print(generateKey());
    });
  addAssignLegacyCommand(program, context);
  addIngestCommand(program, context);
  addSearchCommand(program, context);
  addBackfillCommand(program, context);
  addReprocessCommand(program, context);
  addEvaluateCommand(program, context);
  addApiKeyCommand(program, context);
  program
    .command('inventory')
    .description('validate the inventory of network endpoints; see oselya inventory --help')
    .helpOption(false)
    .allowUnknownOption()
    .passThroughOptions()
    .argument('[arguments...]')
    .action(async (args: string[]) => {
      const { runInventory } = await import('@oselya/inventory');
      context.exitWith(await runInventory(args, process));
    });
  return program;
}
