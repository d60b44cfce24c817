import type { InventoryIo } from './command/io.ts';
import { UsageError } from './command/usage-error.ts';
import { runValidate } from './command/validate-command.ts';
import { Printer } from './output/printer.ts';
import { visible } from './output/visible.ts';

const HELP = `Usage: oselya inventory COMMAND [options]

Commands:
  validate FILE...   check inventories against endpoint.schema.json

See oselya inventory COMMAND --help for the options of a command.
`;

/**
 * Runs `oselya inventory` with the arguments after that name and gives the exit status: 0, 1 when
 * something is wrong with an inventory, 2 for what cannot be read and for wrong use (Contract 5).
 */
export async function runInventory(argv: string[], io: InventoryIo): Promise<number> {
  const [command, ...rest] = argv;
  try {
    if (command === 'validate') return await runValidate(rest, io);
    if (command === '--help' || command === '-h') {
      await new Printer(io.stdout).write(HELP);
      return 0;
    }
    throw new UsageError(
      command === undefined
        ? 'no command is given; see oselya inventory --help'
        : `there is no command ${JSON.stringify(command)}; see oselya inventory --help`,
    );
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const name = command === 'validate' ? 'oselya inventory validate' : 'oselya inventory';
    io.stderr.write(`${name}: ${visible(error.message)}\n`);
    return 2;
  }
}
