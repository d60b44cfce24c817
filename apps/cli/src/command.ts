import { randomBytes } from 'node:crypto';
import { resolve } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import type { ConnectOptions, Database } from '@oselya/db';
import { Command, type ErrorOptions, type HelpContext, InvalidArgumentError } from 'commander';
import { sanitizeLine } from './terminal.ts';

/** Output stream of a command. `isTTY` is true for a terminal. */
export type Output = Writable & { isTTY?: boolean };

/** Streams and environment of the process. Tests replace them. */
export type Io = {
  env: NodeJS.ProcessEnv;
  stdin: Readable & { isTTY?: boolean; fd?: number };
  stdout: Output;
  stderr: Output;
};

export type Context = Io & {
  print: (...lines: string[]) => void;
  /** Sets the exit status of a command that ends without an error. */
  exitWith: (status: number) => void;
};

/** Error of a failed command. The one-line message names the failure and, unless it is obvious, its remedy. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
}

const FILE_ERROR_REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file or folder',
  EISDIR: 'it is a folder',
  EACCES: 'this user lacks the permission',
  ENOSPC: 'the disk is full',
};

/** Creates the error for a file that cannot be read or written. */
export function createFileError(
  name: string,
  action: 'read' | 'written',
  cause: unknown,
): CommandError {
  const { code = String(cause) } = cause as NodeJS.ErrnoException;
  const reason = FILE_ERROR_REASONS[code] ?? code;
  return new CommandError(`${name} cannot be ${action}: ${reason}`, { cause });
}

/** Command that reports usage errors in one line with a pointer to the help. Contract 1. */
export class OneLineCommand extends Command {
  override createCommand(name?: string): OneLineCommand {
    return new OneLineCommand(name);
  }

  override error(message: string, options?: ErrorOptions): never {
    const text = sanitizeLine(message)
      .replace(/^error: /, '')
      .replace(/\.$/, '');
    return super.error(`oselya: ${text}: see ${this.getPath()} --help`, options);
  }

  // Commander would print the whole help for a missing or unknown command.
  override helpInformation(context?: HelpContext): string {
    if (context?.error) this.error('a command is missing');
    const [firstArgument = '-'] = this.args;
    if (this.commands.length > 0 && !firstArgument.startsWith('-')) {
      this.error(`unknown command '${firstArgument}'`);
    }
    return super.helpInformation(context);
  }

  private getPath(): string {
    const { parent } = this;
    return parent instanceof OneLineCommand ? `${parent.getPath()} ${this.name()}` : this.name();
  }
}

/**
 * Adds a command with its help.
 * @param help.needs Required services, with the variables that locate them.
 * @param help.note Additional sentences.
 */
export function addCommand(
  program: Command,
  name: string,
  help: { description: string; usage?: string; needs: string; note: string },
): Command {
  const helpText = `${help.usage ?? ''}
It needs ${help.needs}
${help.note}
Every variable is in docs/configuration.md.`;
  return program.command(name).description(help.description).addHelpText('after', helpText);
}

// Copied from the schema, so `--help` does not load the collector. A test compares the copies.
const SOURCE_SLUG_PATTERN = /^[a-z0-9][a-z0-9_-]{0,63}$/;

/**
 * Parses a source slug. Contract 4, PayloadSchema.
 * @throws InvalidArgumentError
 */
export function parseSourceSlug(value: string): string {
  if (SOURCE_SLUG_PATTERN.test(value)) return value;
  throw new InvalidArgumentError(
    'A source slug must have at most 64 lower-case letters, digits, _ and -, and begin with a letter or a digit.',
  );
}

/**
 * Parses an argument that must not be empty. An empty one usually comes from an unset shell variable.
 * @throws InvalidArgumentError
 */
export function parseNonEmpty(value: string): string {
  if (value.trim() !== '') return value;
  throw new InvalidArgumentError('It must not be empty.');
}

/**
 * Parses a count or an ID: a positive integer of at most 15 digits.
 * @throws InvalidArgumentError
 */
export function parsePositiveInteger(value: string): number {
  if (/^[1-9]\d{0,14}$/.test(value)) return Number(value);
  throw new InvalidArgumentError('It must be a positive integer.');
}

/** Exit status of an interrupted command: by convention 128 plus the number of SIGINT, for SIGTERM too. */
export const INTERRUPTED_STATUS = 130;

/** Creates a signal that aborts on the first Ctrl-C or SIGTERM. A second one ends the process. */
export function createInterruptSignal(): AbortSignal {
  const controller = new AbortController();
  const onSignal = () => {
    if (controller.signal.aborted) process.exit(INTERRUPTED_STATUS);
    controller.abort();
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  return controller.signal;
}

type DatabaseConfig = { DATABASE_URL?: string; DATA_DIR: string };

/**
 * Opens the configured database for one command. Warns if it is the embedded one.
 * @throws DatabaseError
 */
export async function openDatabase<Schema>(
  config: DatabaseConfig,
  context: Context,
  options: Pick<ConnectOptions, 'queryTimeoutMs'> = {},
): Promise<Database<Schema> & AsyncDisposable> {
  const { connect } = await import('@oselya/db');
  const { DATABASE_URL: url, DATA_DIR: dataDir } = config;
  const database = await connect<Schema>({ url, dataDir, ...options });
  warnAboutEmbeddedDatabase(config, context);
  return { ...database, [Symbol.asyncDispose]: database.close };
}

/**
 * Opens the database and the model of the collector for a maintenance command. Warns if the database is the embedded
 * one.
 * @throws ConfigError, StartError, DatabaseError.
 */
export async function openCollector(context: Context) {
  const { openMaintenance, readConfig } = await import('@oselya/collector');
  const maintenance = await openMaintenance(context.env);
  warnAboutEmbeddedDatabase(readConfig(context.env, { servesApi: false }), context);
  return maintenance;
}

/** Warns about the embedded database, because a server operator rarely intends to use it. */
function warnAboutEmbeddedDatabase(config: DatabaseConfig, { stderr }: Context): void {
  if (config.DATABASE_URL !== undefined) return;
  const folder = resolve(config.DATA_DIR);
  stderr.write(`DATABASE_URL is not set: the embedded database in ${folder} is used.\n`);
}

/** Generates an encryption key: 32 bytes in URL-safe base64. Specification 000, Configuration. */
export function generateKey(): string {
  return randomBytes(32).toString('base64url');
}
