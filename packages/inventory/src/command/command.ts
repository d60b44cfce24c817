import { once } from 'node:events';
import type { Writable } from 'node:stream';
import { parseArgs, type ParseArgsConfig } from 'node:util';
import { type Day, parseDay, toDay } from '../day.ts';
import { INVENTORY_FORMATS, type InventoryFormat } from '../read/input.ts';

/** The parts of `process` that the commands use. */
export type InventoryIo = {
  stdin: AsyncIterable<Uint8Array>;
  stdout: Writable;
  stderr: Writable;
  env: Record<string, string | undefined>;
  /** Whether standard output is a terminal. Defaults to the `isTTY` of the stream. */
  isTTY?: boolean;
  /** Command name in messages. Defaults to `oselya inventory`. */
  name?: string;
  /** Stops a command that would otherwise run until the process ends. */
  signal?: AbortSignal;
};

/** The context of a running command. */
export type Context = {
  io: InventoryIo;
  /** Standard output. */
  out: Printer;
  /** Writes a line to standard error, prefixed with the command name. */
  log: (message: string) => void;
};

/** A command of `oselya inventory`. */
export type Command = {
  /** Help text below the usage line. */
  help: string;
  /**
   * Runs the command. Returns the exit status: 0 success, 1 problems found, 2 unreadable input.
   * @throws UsageError
   */
  run(argv: string[], context: Context): Promise<number>;
};

/** Thrown for invalid arguments or unusable files. The one-line message names the error and its remedy. */
export class UsageError extends Error {
  override name = 'UsageError';
  /** Arguments of the related help command, such as `validate --help`. */
  readonly helpArguments: string | undefined;

  constructor(message: string, { see, cause }: { see?: string | undefined; cause?: unknown } = {}) {
    super(message, { cause });
    this.helpArguments = see;
  }
}

/**
 * Parses the arguments of a command.
 * @throws UsageError about the first invalid one.
 */
export function parseArguments<const O extends NonNullable<ParseArgsConfig['options']>>(
  command: string,
  args: string[],
  options: O,
) {
  try {
    return parseArgs({ args, allowPositionals: true, options });
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    // The first sentence of Node's message says what is wrong.
    const [sentence = ''] = error.message.split(/\.\s/);
    const [, option] = /(--[\w-]+)[^']*' argument is ambiguous/.exec(sentence) ?? [];
    const message =
      option === undefined
        ? sentence.replaceAll('\n', ' ')
        : `${option} has no value; write one that begins with a dash as ${option}=VALUE`;
    throw new UsageError(message, { see: `${command} --help`, cause: error });
  }
}

/** Parses an option with a fixed set of values. */
export function parseChoice<T extends string>(
  option: string,
  allowed: readonly T[],
  given: string | undefined,
): T | undefined {
  if (given === undefined) return undefined;
  const found = allowed.find((value) => value === given);
  if (found !== undefined) return found;
  throw new UsageError(`${option} must be one of ${allowed.join(', ')}, not "${given}"`);
}

/** Parses an option whose value is a whole number. */
export function parseWholeNumber(
  option: string,
  given: string | undefined,
  { min = 0, max = 999_999_999 } = {},
): number | undefined {
  if (given === undefined) return undefined;
  const number = /^\d{1,9}$/.test(given) ? Number(given) : NaN;
  if (number >= min && number <= max) return number;
  throw new UsageError(`${option} must be a whole number from ${min} to ${max}, not "${given}"`);
}

/** Parses `--today`. Defaults to the current day in UTC. */
export function parseToday(given: string | undefined): Day {
  if (given === undefined) return toDay(new Date());
  const day = parseDay(given);
  if (day !== null && day.length === given.length) return day;
  throw new UsageError(`--today must be a day, such as 2026-11-20, not "${given}"`);
}

/** Option of all commands that read inventories. */
export const INPUT_FORMAT_OPTION = { 'input-format': { type: 'string' } } as const;

export const INPUT_FORMAT_HELP =
  '  --input-format json|jsonl|yaml    the format of FILE, whatever its name';

/** Parses `--input-format`. Undefined if the file name determines the format. */
export function parseInputFormat(values: { 'input-format'?: string }): InventoryFormat | undefined {
  return parseChoice('--input-format', INVENTORY_FORMATS, values['input-format']);
}

/** Thrown if output cannot be written. The one-line message names the error and its remedy. */
export class WriteError extends Error {
  override name = 'WriteError';
}

// Error codes of a stream whose reader has closed it.
const CLOSED_STREAM_CODES = new Set(['EPIPE', 'ERR_STREAM_DESTROYED']);
// Maximum UTF-16 code units of one write.
const PART_LENGTH = 64 * 1024;

/**
 * Writes to a stream with backpressure. If the reader closes the stream, as `head` does, it drops further output and sets
 * `isClosed`. Other stream errors are thrown by the next call.
 */
export class Printer {
  isClosed = false;
  readonly #stream: Writable;
  readonly #closed: Promise<void>;
  #failure: WriteError | null = null;

  constructor(stream: Writable) {
    this.#stream = stream;
    const closed = Promise.withResolvers<void>();
    this.#closed = closed.promise;
    // The listener stays, because the last write may fail after `end`.
    stream.on('error', (error) => {
      this.#close(error);
      closed.resolve();
    });
    stream.once('close', () => closed.resolve());
  }

  /** @throws WriteError when an earlier write failed. */
  async write(text: string): Promise<void> {
    this.#throwFailure();
    if (this.isClosed || text === '' || this.#stream.write(text)) return;
    const waiting = new AbortController();
    const drained = once(this.#stream, 'drain', { signal: waiting.signal }).catch(() => undefined);
    await Promise.race([drained, this.#closed]);
    waiting.abort();
  }

  /**
   * Writes pieces as they are generated. Stops if the reader closes the stream.
   * @throws WriteError when an earlier write failed.
   */
  async writeAll(pieces: Iterable<string>): Promise<void> {
    let part = '';
    for (const piece of pieces) {
      part += piece;
      if (part.length < PART_LENGTH) continue;
      await this.write(part);
      if (this.isClosed) return;
      part = '';
    }
    await this.write(part);
  }

  /**
   * Waits until everything is written.
   * @throws WriteError if a write failed.
   */
  async end(): Promise<void> {
    if (!this.isClosed && !this.#stream.destroyed) {
      // Writes complete in order, so this one completes last.
      const flushed = new Promise<void>((done) => this.#stream.write('', () => done()));
      await Promise.race([flushed, this.#closed]);
    }
    this.#throwFailure();
  }

  #throwFailure(): void {
    // A failed stream sets `errored` immediately and emits the error later.
    if (this.#stream.errored) this.#close(this.#stream.errored);
    if (this.#stream.destroyed) this.isClosed = true;
    if (this.#failure !== null) throw this.#failure;
  }

  #close(error: Error & { code?: unknown }): void {
    this.isClosed = true;
    if (CLOSED_STREAM_CODES.has(String(error.code))) return;
    const reason =
      error.code === 'ENOSPC' ? 'there is no space left; free some and try again' : error.message;
    this.#failure ??= new WriteError(`cannot write to standard output: ${reason}`, {
      cause: error,
    });
  }
}
