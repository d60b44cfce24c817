import { setFlagsFromString } from 'node:v8';
import manifest from '../package.json' with { type: 'json' };
import {
  type Command,
  type InventoryIo,
  Printer,
  UsageError,
  WriteError,
} from './command/command.ts';
import { maskCredentials } from './credentials.ts';
import { escapeInvisible } from './text.ts';

/** Commands in the order of the help. Their modules are loaded on demand. */
const COMMANDS: Record<string, { usage: string; summary: string; load: () => Promise<Command> }> = {
  validate: {
    usage: 'FILE...',
    summary: 'check inventories against endpoint.schema.json',
    load: async () => (await import('./command/validate.ts')).validateCommand,
  },
  lint: {
    usage: 'FILE...',
    summary: 'judge inventories by rules beyond the schema',
    load: async () => (await import('./command/lint.ts')).lintCommand,
  },
  diff: {
    usage: 'OLD NEW',
    summary: 'compare two inventories by the ids of their records',
    load: async () => (await import('./command/diff.ts')).diffCommand,
  },
  report: {
    usage: 'FILE',
    summary: 'print a page or a table of an inventory',
    load: async () => (await import('./command/report.ts')).reportCommand,
  },
  export: {
    usage: 'FILE',
    summary: 'print records for Prometheus, the blackbox exporter or a hosts file',
    load: async () => (await import('./command/export.ts')).exportCommand,
  },
  import: {
    usage: 'FILE',
    summary: 'draft records from Compose, nginx, Caddy or OpenAPI',
    load: async () => (await import('./command/import.ts')).importCommand,
  },
  probe: {
    usage: 'FILE',
    summary: 'connect to endpoints: reachable, certificate, exposure',
    load: async () => (await import('./command/probe.ts')).probeCommand,
  },
};

/**
 * Runs an `oselya inventory` command.
 * @returns The exit status: 0 for success, 1 for inventory problems, 2 for I/O failures and invalid arguments
 * (Contract 5).
 */
export async function runInventory(argv: string[], io: InventoryIo): Promise<number> {
  const name = io.name ?? 'oselya inventory';
  const [called = '', ...rest] = argv;
  const entry = Object.hasOwn(COMMANDS, called) ? COMMANDS[called] : undefined;
  const prefix = entry === undefined ? name : `${name} ${called}`;
  const out = new Printer(io.stdout);
  // A closed standard error must not change the exit status.
  io.stderr.on('error', () => undefined);
  const log = (message: string) =>
    void io.stderr.write(`${escapeInvisible(maskCredentials(`${prefix}: ${message}`))}\n`);
  try {
    const status = await run();
    await out.end();
    return status;
  } catch (error) {
    if (!(error instanceof UsageError || error instanceof WriteError)) throw error;
    const see = error instanceof UsageError ? error.helpArguments : undefined;
    log(see === undefined ? error.message : `${error.message}; see ${name} ${see}`);
    return 2;
  }

  async function run(): Promise<number> {
    if (entry === undefined) {
      if (called === '--version' || called === '-V') await out.write(`${manifest.version}\n`);
      else if (isHelpRequested(argv)) await out.write(formatHelp(name));
      else {
        const problem =
          argv.length === 0
            ? 'no command is given'
            : `there is no command ${JSON.stringify(called)}`;
        throw new UsageError(problem, { see: '--help' });
      }
      return 0;
    }
    const command = await entry.load();
    if (isHelpRequested(rest)) {
      await out.write(`Usage: ${prefix} [options] ${entry.usage}\n\n${command.help}`);
      return 0;
    }
    return command.run(rest, { io, out, log });
  }
}

function formatHelp(name: string): string {
  const list = Object.entries(COMMANDS).map(([called, { usage, summary }]) => {
    return `  ${`${called} ${usage}`.padEnd(18)} ${summary}\n`;
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

/** Arguments after `--` are files. */
function isHelpRequested(args: readonly string[]): boolean {
  const end = args.indexOf('--');
  const options = end === -1 ? args : args.slice(0, end);
  return options.includes('--help') || options.includes('-h');
}

/**
 * Limits the growth of the heap for the rest of the process. A check of an inventory
 * drops each record and is as fast with a small heap. A program that keeps all records becomes much slower.
 */
export function keepHeapSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
  setFlagsFromString('--heap-growing-percent=10');
  setFlagsFromString('--optimize-for-size');
}

/** An internal error must not look like an invalid inventory. */
const INTERNAL_ERROR = 2;

/**
 * Runs `oselya inventory` as the only task of the process (docs/adr/0022-size-of-a-record.md). Reports internal
 * errors, including unhandled errors.
 * @returns The exit status of {@link runInventory}, or 2 for an internal error.
 */
export async function runInventoryProcess(argv: string[], io: InventoryIo): Promise<number> {
  const report = (error: unknown) => {
    const details = error instanceof Error ? (error.stack ?? String(error)) : String(error);
    io.stderr.write(`${io.name ?? 'oselya inventory'}: internal error: ${details}\n`);
    return INTERNAL_ERROR;
  };
  const exit = (error: unknown) => process.exit(report(error));
  // All other commands keep records or ids in memory.
  if (argv[0] === 'validate') keepHeapSmall();
  process.once('uncaughtException', exit);
  try {
    return await runInventory(argv, io);
  } catch (error) {
    return report(error);
  } finally {
    process.off('uncaughtException', exit);
  }
}
