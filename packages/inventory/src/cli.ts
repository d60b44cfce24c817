import type { Command } from './command/command.ts';
import { diff } from './command/diff.ts';
import { exportCommand } from './command/export.ts';
import { importCommand } from './command/import.ts';
import type { InventoryIo } from './command/io.ts';
import { lint } from './command/lint.ts';
import { probe } from './command/probe.ts';
import { report } from './command/report.ts';
import { UsageError } from './command/usage-error.ts';
import { validate } from './command/validate.ts';
import { Printer } from './output/printer.ts';
import { visible } from './output/visible.ts';

/** The commands in the order in which help lists them. */
const commands = new Map<string, Command>([
  ['validate', validate],
  ['lint', lint],
  ['diff', diff],
  ['report', report],
  ['export', exportCommand],
  ['import', importCommand],
  ['probe', probe],
]);

const WIDTH = 18;

const HELP = `Usage: oselya inventory COMMAND [options]

Commands:
${Array.from(commands, ([name, { usage, summary }]) => `  ${`${name} ${usage}`.padEnd(WIDTH)} ${summary}`).join('\n')}

See oselya inventory COMMAND --help for the options of a command.
`;

/**
 * Runs `oselya inventory` with the arguments after that name and gives the exit status: 0, 1 when
 * something is wrong with an inventory, 2 for what cannot be read and for wrong use (Contract 5).
 */
export async function runInventory(argv: string[], io: InventoryIo): Promise<number> {
  const [name, ...rest] = argv;
  const command = commands.get(name ?? '');
  try {
    if (command !== undefined) return await command.run(rest, io);
    if (name === '--help' || name === '-h') {
      await new Printer(io.stdout).write(HELP);
      return 0;
    }
    throw new UsageError(
      name === undefined
        ? 'no command is given; see oselya inventory --help'
        : `there is no command ${JSON.stringify(name)}; see oselya inventory --help`,
    );
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const prefix = command === undefined ? 'oselya inventory' : `oselya inventory ${name}`;
    io.stderr.write(`${prefix}: ${visible(error.message)}\n`);
    return 2;
  }
}
