import { randomBytes } from 'node:crypto';
import type { Readable, Writable } from 'node:stream';
import { resolve } from 'node:path';
import type { ConnectOptions, Database } from '@oselya/db';
import { Command, type ErrorOptions, type HelpContext, InvalidArgumentError } from 'commander';
import { oneLine } from './terminal.ts';

/** A stream that a command writes to; `isTTY` when a person reads it at a terminal. */
export type Output = Writable & { isTTY?: boolean };

/** The streams and environment of the process, or their replacements in a test. */
export type Io = {
  env: NodeJS.ProcessEnv;
  stdin: Readable & { isTTY?: boolean; fd?: number };
  stdout: Output;
  stderr: Output;
};

/** Everything that a command gets from its surroundings. */
export type Context = Io & {
  print: (line: string) => void;
  /** Sets the exit status of a command that ends without an error. */
  exitWith: (status: number) => void;
};

/** A failed command. The message is one line that says what happened and what to do. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
}

/** Reports every wrong use in one line that names the help to read. Contract 1. */
export class OneLineCommand extends Command {
  override createCommand(name?: string): OneLineCommand {
    return new OneLineCommand(name);
  }

  override error(message: string, options?: ErrorOptions): never {
    const wrong = oneLine(message)
      .replace(/^error: /, '')
      .replace(/\.$/, '');
    return super.error(`oselya: ${wrong}: see ${this.path()} --help`, options);
  }

  /** Commander prints the whole help for a missing command, and the parent's for an unknown one. */
  override helpInformation(context?: HelpContext): string {
    if (context?.error) this.error('a command is missing');
    const [first = '-'] = this.args;
    if (this.commands.length > 0 && !first.startsWith('-'))
      this.error(`unknown command '${first}'`);
    return super.helpInformation(context);
  }

  private path(): string {
    return this.parent instanceof OneLineCommand
      ? `${this.parent.path()} ${this.name()}`
      : this.name();
  }
}

/**
 * Returns the text below the help of a command.
 * @param needs The required services, with the variables that locate them.
 * @param note One more sentence.
 */
export function formatHelp(needs: string, note: string): string {
  return `
It needs ${needs}
${note}
Every variable is in docs/configuration.md.`;
}

// A copy of the schema's pattern keeps the collector out of --help; a test compares the two.
const SOURCE_SLUG = /^[a-z0-9][a-z0-9_-]{0,63}$/;

/**
 * Parses a source slug. Contract 4, PayloadSchema.
 * @throws InvalidArgumentError
 */
export function parseSourceSlug(value: string): string {
  if (SOURCE_SLUG.test(value)) return value;
  throw new InvalidArgumentError(
    'A source slug has lower-case letters, digits, _ and -, at most 64 of them, and begins with a letter or a digit.',
  );
}

/**
 * Parses a count or an id.
 * @throws InvalidArgumentError
 */
export function parseWholeNumber(value: string): number {
  if (/^[1-9]\d{0,14}$/.test(value)) return Number(value);
  throw new InvalidArgumentError('It is a whole number from 1.');
}

/** The exit status that shells use for a command ended by Ctrl-C. */
export const INTERRUPTED_STATUS = 130;

/** Returns a signal that the first Ctrl-C aborts. A second Ctrl-C ends the process at once. */
export function createInterruptSignal(): AbortSignal {
  const controller = new AbortController();
  const stop = () => {
    if (controller.signal.aborted) process.exit(INTERRUPTED_STATUS);
    controller.abort();
  };
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
  return controller.signal;
}

type DatabaseConfig = { DATABASE_URL?: string; DATA_DIR: string };

/**
 * Opens the configured database for one command.
 * @throws DatabaseError
 */
export async function openDatabase<Schema>(
  config: DatabaseConfig,
  context: Pick<Context, 'stderr'>,
  options: Pick<ConnectOptions, 'queryTimeoutMs'> = {},
): Promise<Database<Schema> & AsyncDisposable> {
  const { connect } = await import('@oselya/db');
  const { DATABASE_URL: url, DATA_DIR: dataDir } = config;
  const database = await connect<Schema>({ url, dataDir, ...options });
  warnAboutEmbeddedDatabase(config, context);
  return { ...database, [Symbol.asyncDispose]: database.close };
}

/** Names the embedded database: on a server without DATABASE_URL it is rarely the intended one. */
export function warnAboutEmbeddedDatabase(
  { DATABASE_URL: url, DATA_DIR: dataDir }: DatabaseConfig,
  { stderr }: Pick<Context, 'stderr'>,
): void {
  if (url !== undefined) return;
  stderr.write(`DATABASE_URL is not set: the embedded database in ${resolve(dataDir)} is used.\n`);
}

/** Returns a new encryption key: url-safe base64 of 32 bytes. Specification 000, Configuration. */
export function generateKey(): string {
  return randomBytes(32).toString('base64url');
}
