import manifest from '../package.json' with { type: 'json' };
import type { Entry } from './command/command.ts';
import { maskCredentials } from './credentials.ts';
import type { InventoryIo } from './io.ts';
import { UsageError } from './command/usage-error.ts';
import { Printer, WriteError } from './output/printer.ts';
import { visible } from './output/visible.ts';

/** The commands in the order in which help lists them. */
const commands = new Map<string, Entry>([
  [
    'validate',
    {
      usage: 'FILE...',
      summary: 'check inventories against endpoint.schema.json',
      keepsNoRecords: true,
      load: async () => (await import('./command/validate.ts')).validate,
    },
  ],
  [
    'lint',
    {
      usage: 'FILE...',
      summary: 'judge inventories by rules beyond the schema',
      load: async () => (await import('./command/lint.ts')).lint,
    },
  ],
  [
    'diff',
    {
      usage: 'OLD NEW',
      summary: 'compare two inventories by the ids of their records',
      load: async () => (await import('./command/diff.ts')).diff,
    },
  ],
  [
    'report',
    {
      usage: 'FILE',
      summary: 'print a page, or a table, of what an inventory holds',
      load: async () => (await import('./command/report.ts')).report,
    },
  ],
  [
    'export',
    {
      usage: 'FILE',
      summary: 'print records for Prometheus, the blackbox exporter or a hosts file',
      load: async () => (await import('./command/export.ts')).exportCommand,
    },
  ],
  [
    'import',
    {
      usage: 'FILE',
      summary: 'draft records from Compose, nginx, Caddy or OpenAPI',
      load: async () => (await import('./command/import.ts')).importCommand,
    },
  ],
  [
    'probe',
    {
      usage: 'FILE',
      summary: 'connect to endpoints: reachable, certificate, exposure',
      load: async () => (await import('./command/probe.ts')).probe,
    },
  ],
]);

const WIDTH = 18;

/** Whether the command that is called reads records one after another, and keeps none of them. */
export function keepsNoRecords([called = '']: readonly string[]): boolean {
  return commands.get(called)?.keepsNoRecords ?? false;
}

/**
 * Runs `oselya inventory` with the arguments after that name and gives the exit status: 0, 1 when
 * something is wrong with an inventory, 2 for what cannot be read or written and for wrong use (Contract 5).
 */
export async function runInventory(argv: string[], io: InventoryIo): Promise<number> {
  const name = io.name ?? 'oselya inventory';
  const [called, ...rest] = argv;
  const entry = commands.get(called ?? '');
  const prefix = entry === undefined ? name : `${name} ${called}`;
  const out = new Printer(io.stdout);
  // Where nobody reads what went wrong, as after `2>&1 | head`, the exit status tells it.
  io.stderr.on('error', () => undefined);
  const tell = (message: string) =>
    void io.stderr.write(`${visible(maskCredentials(`${prefix}: ${message}`))}\n`);
  try {
    const status = await run();
    await out.end();
    return status;
  } catch (error) {
    if (error instanceof UsageError && error.see !== undefined) {
      tell(`${error.message}; see ${name} ${error.see}`);
    } else if (error instanceof UsageError || error instanceof WriteError) tell(error.message);
    else throw error;
    return 2;
  }

  async function run(): Promise<number> {
    if (entry === undefined) {
      if (called === '--version' || called === '-V') await out.write(`${manifest.version}\n`);
      else if (isHelp(argv)) await out.write(helpOf(name));
      else throw unknownCommand(called);
      return 0;
    }
    const command = await entry.load();
    if (isHelp(rest)) {
      await out.write(`Usage: ${prefix} [options] ${entry.usage}\n\n${command.help}`);
      return 0;
    }
    return command.run(rest, { io, out, tell });
  }
}

function helpOf(name: string): string {
  const list = Array.from(commands, ([called, { usage, summary }]) => {
    return `  ${`${called} ${usage}`.padEnd(WIDTH)} ${summary}\n`;
  });
  return `Usage: ${name} COMMAND [options]

Commands:
${list.join('')}
Options:
  --version          print the version
  --help             print this text

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
