import type { Command } from 'commander';
import type { Context } from '../context.ts';
import { generateKey } from '../encryption-key.ts';
import { help } from '../help.ts';

/** `oselya keygen`. Contract 1. */
export function addKeygenCommand(program: Command, { print }: Context): void {
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
    .action(() => print(generateKey()));
}
