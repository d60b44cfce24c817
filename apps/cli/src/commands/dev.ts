import type { Command } from 'commander';
import type { Context } from '../context.ts';
import { help } from '../help.ts';

/** `oselya dev`. Contract 1. */
export function addDevCommand(program: Command, { env, print }: Context): void {
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
      // Before what takes a second or more to load.
      print('Oselya is starting; the first start takes up to a minute. Ctrl-C stops it.');
      const { dev } = await import('../dev/dev.ts');
      await dev({ env, print });
    });
  // What npm calls it. Whoever looks for it here is told the name.
  program
    .command('start', { hidden: true })
    .helpOption(false)
    .allowUnknownOption()
    .allowExcessArguments()
    .action(() => program.error("unknown command 'start' (Did you mean dev?)"));
}
