import { randomBytes } from 'node:crypto';
import type { Readable, Writable } from 'node:stream';
import { resolve } from 'node:path';
import type { ConnectOptions, Database } from '@oselya/db';
import { Command, type ErrorOptions, type HelpContext, InvalidArgumentError } from 'commander';
import { oneLine } from './terminal.ts';

/** Output stream of a command. `isTTY` is true for a terminal. */
export type Output = Writable & { isTTY?: boolean };

/** Streams and environment of the process. Tests replace them. */
export type Io = {
  env: NodeJS.ProcessEnv;
  stdin: Readable & { isTTY?: boolean; fd?: number };
  stdout: Output;
  stderr: Output;
};

/** Context of a command. */
export type Context = Io & {
  print: (line: string) => void;
  /** Sets the exit status of a command that ends without an error. */
  exitWith: (status: number) => void;
};

/** Error of a failed command. The one-line message names the failure and its remedy. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
}

/** Command that reports usage errors in one line with a pointer to the help. Contract 1. */
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

  /** Overridden because Commander prints the whole help for a missing or unknown command. */
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
 * Formats the text below the help of a command.
 * @param needs Required services, with the variables that locate them.
 * @param note Additional sentence.
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

/** Conventional exit status of a command that Ctrl-C ended. */
export const INTERRUPTED_STATUS = 130;

/** Creates a signal that aborts on the first Ctrl-C. A second Ctrl-C ends the process. */
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

/** Warns that the embedded database is used, which is rarely intended on a server. */
export function warnAboutEmbeddedDatabase(
  { DATABASE_URL: url, DATA_DIR: dataDir }: DatabaseConfig,
  { stderr }: Pick<Context, 'stderr'>,
): void {
  if (url !== undefined) return;
  stderr.write(`DATABASE_URL is not set: the embedded database in ${resolve(dataDir)} is used.\n`);
}

/** Generates an encryption key: 32 bytes in URL-safe base64. Specification 000, Configuration. */
export function generateKey(): string {
  return randomBytes(32).toString('base64url');
}
