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

/** Commands in help order, each with its usage, summary and a function that loads its module on demand. */
const COMMANDS: Record<string, [usage: string, summary: string, load: () => Promise<Command>]> = {
  validate: [
    'FILE...',
    'check inventories against endpoint.schema.json',
    async () => (await import('./command/validate.ts')).validateCommand,
  ],
  lint: [
    'FILE...',
    'judge inventories by rules beyond the schema',
    async () => (await import('./command/lint.ts')).lintCommand,
  ],
  diff: [
    'OLD NEW',
    'compare two inventories by the ids of their records',
    async () => (await import('./command/diff.ts')).diffCommand,
  ],
  report: [
    'FILE',
    'print a page or a table of an inventory',
    async () => (await import('./command/report.ts')).reportCommand,
  ],
  export: [
    'FILE',
    'print records for Prometheus, the blackbox exporter or a hosts file',
    async () => (await import('./command/export.ts')).exportCommand,
  ],
  import: [
    'FILE',
    'draft records from Compose, nginx, Caddy or OpenAPI',
    async () => (await import('./command/import.ts')).importCommand,
  ],
  probe: [
    'FILE',
    'connect to endpoints: reachable, certificate, exposure',
    async () => (await import('./command/probe.ts')).probeCommand,
  ],
};

/**
 * Runs an `oselya inventory` command.
 * @returns The exit status: 0 for success, 1 for inventory problems, 2 for I/O failures and invalid arguments
 * (Contract 5).
 */
export async function runInventory(argv: string[], io: InventoryIo): Promise<number> {
  const name = io.name ?? 'oselya inventory';
  const [commandName = '', ...commandArguments] = argv;
  const commandEntry = Object.hasOwn(COMMANDS, commandName) ? COMMANDS[commandName] : undefined;
  const prefix = commandEntry === undefined ? name : `${name} ${commandName}`;
  // A closed standard error must not change the exit status.
  io.stderr.on('error', () => undefined);
  const log = (message: string) =>
    void io.stderr.write(`${escapeInvisible(maskCredentials(`${prefix}: ${message}`))}\n`);
  const out = new Printer(io.stdout);
  try {
    if (commandEntry !== undefined) {
      const [usage, , load] = commandEntry;
      const command = await load();
      if (!isHelpRequested(commandArguments))
        return await command.run(commandArguments, { io, out, log });
      await out.write(`Usage: ${prefix} [options] ${usage}\n\n${command.help}`);
    } else if (commandName === '--version' || commandName === '-V')
      await out.write(`${manifest.version}\n`);
    else if (isHelpRequested(argv)) await out.write(formatHelp(name));
    else {
      const problem =
        argv.length === 0
          ? 'no command specified'
          : `there is no command ${JSON.stringify(commandName)}`;
      throw new UsageError(problem, { helpArguments: '--help' });
    }
    return 0;
  } catch (error) {
    if (!(error instanceof UsageError || error instanceof WriteError)) throw error;
    const helpArguments = error instanceof UsageError ? error.helpArguments : undefined;
    log(
      helpArguments === undefined
        ? error.message
        : `${error.message}; see ${name} ${helpArguments}`,
    );
    return 2;
  }
}

function formatHelp(name: string): string {
  const commandLines = Object.entries(COMMANDS).map(([commandName, [usage, summary]]) => {
    return `  ${`${commandName} ${usage}`.padEnd(18)} ${summary}\n`;
  });
  return `Usage: ${name} COMMAND [options]

Commands:
${commandLines.join('')}
Options:
  --version          print the version
  --help             print this text

See ${name} COMMAND --help for the options of a command.
`;
}

/** Returns whether arguments contain `--help` or `-h`. Arguments after `--` are files. */
function isHelpRequested(args: readonly string[]): boolean {
  const separatorIndex = args.indexOf('--');
  const options = separatorIndex === -1 ? args : args.slice(0, separatorIndex);
  return options.includes('--help') || options.includes('-h');
}

/**
 * Limits heap growth for the rest of the process. Use it only for validation, which keeps no records: a program that
 * keeps all records becomes much slower.
 */
export function keepHeapSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
  setFlagsFromString('--heap-growing-percent=10');
  setFlagsFromString('--optimize-for-size');
}

/**
 * Runs `oselya inventory` as the only task of the process (docs/adr/0022-size-of-a-record.md). Reports internal
 * errors. An uncaught exception also ends the process.
 * @returns The exit status of {@link runInventory}, or 2 for an internal error.
 */
export async function runInventoryProcess(argv: string[], io: InventoryIo): Promise<number> {
  const reportError = (error: unknown) => {
    const details = error instanceof Error ? (error.stack ?? String(error)) : String(error);
    io.stderr.write(`${io.name ?? 'oselya inventory'}: internal error: ${details}\n`);
    // An internal error must not look like an invalid inventory.
    return 2;
  };
  const onUncaughtException = (error: unknown) => process.exit(reportError(error));
  // All other commands keep records or IDs in memory.
  if (argv[0] === 'validate') keepHeapSmall();
  process.once('uncaughtException', onUncaughtException);
  try {
    return await runInventory(argv, io);
  } catch (error) {
    return reportError(error);
  } finally {
    process.off('uncaughtException', onUncaughtException);
  }
}
