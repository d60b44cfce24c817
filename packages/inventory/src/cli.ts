import type { Command } from './command/command.ts';
import { diff } from './command/diff.ts';
import { exportCommand } from './command/export.ts';
import { importCommand } from './command/import.ts';
import type { InventoryIo } from './io.ts';
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

/**
 * Runs `oselya inventory` with the arguments after that name and gives the exit status: 0, 1 when
 * something is wrong with an inventory, 2 for what cannot be read and for wrong use (Contract 5).
 */
export async function runInventory(argv: string[], io: InventoryIo): Promise<number> {
  const name = io.name ?? 'oselya inventory';
  const [called, ...rest] = argv;
  const command = commands.get(called ?? '');
  const prefix = command === undefined ? name : `${name} ${called}`;
  const out = new Printer(io.stdout);
  const tell = (message: string) => void io.stderr.write(`${visible(`${prefix}: ${message}`)}\n`);
  try {
    if (command === undefined) {
      if (!isHelp(argv)) throw unknownCommand(called);
      await out.write(helpOf(name));
      return 0;
    }
    if (isHelp(rest)) {
      await out.write(`Usage: ${prefix} [options] ${command.usage}\n\n${command.help}`);
      return 0;
    }
    return await command.run(rest, { io, out, tell });
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    tell(error.see === undefined ? error.message : `${error.message}; see ${name} ${error.see}`);
    return 2;
  }
}

function helpOf(name: string): string {
  const list = Array.from(commands, ([called, { usage, summary }]) => {
    return `  ${`${called} ${usage}`.padEnd(WIDTH)} ${summary}\n`;
  });
  return `Usage: ${name} COMMAND [options]

Commands:
${list.join('')}
See ${name} COMMAND --help for the options of a command.
`;
}

/** Help is asked for by itself, or among the options of a command; after `--` there are only files. */
function isHelp(args: readonly string[]): boolean {
  const end = args.indexOf('--');
  const options = end === -1 ? args : args.slice(0, end);
  return options.includes('--help') || options.includes('-h');
}

function unknownCommand(called: string | undefined): UsageError {
  const message =
    called === undefined ? 'no command is given' : `there is no command ${JSON.stringify(called)}`;
  return new UsageError(message, { see: '--help' });
}
