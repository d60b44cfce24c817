import type { Command } from 'commander';
import type { Context } from '../context.ts';

/** `oselya inventory`, which reads its own arguments. Contract 5. */
export function addInventoryCommand(program: Command, context: Context): void {
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
