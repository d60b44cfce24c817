import { once } from 'node:events';
import type { Writable } from 'node:stream';
import { parseArgs, type ParseArgsConfig } from 'node:util';
import { type Day, readDay, toDay } from '../day.ts';
import { INVENTORY_FORMATS, type InventoryFormat } from '../read/input.ts';

/** The parts of its process that the command uses; `process` itself has this shape. */
export type InventoryIo = {
  stdin: AsyncIterable<Uint8Array>;
  stdout: Writable;
  stderr: Writable;
  env: Record<string, string | undefined>;
  /** Whether standard output is a terminal; read from the stream by default. */
  isTTY?: boolean;
  /** The name of the command; `oselya inventory` by default. */
  name?: string;
  /** Ends a command that runs until its process ends. */
  signal?: AbortSignal;
};

/** The context of a running command. */
export type Context = {
  io: InventoryIo;
  /** Standard output. */
  out: Printer;
  /** Writes a line to standard error, after the name of the command. */
  log: (message: string) => void;
};

/** A command of `oselya inventory`. */
export type Command = {
  /** The help after the usage line; it ends with the options and the exit status. */
  help: string;
  /**
   * Returns the exit status: 0 good, 1 problems found, 2 unreadable.
   * @throws UsageError
   */
  run(argv: string[], context: Context): Promise<number>;
};

/** Thrown for wrong use. The message is one line: what is wrong and what to do. */
export class UsageError extends Error {
  override name = 'UsageError';
  /** The arguments of a call that explains more, such as `validate --help`. */
  readonly see: string | undefined;

  constructor(message: string, { see, cause }: { see?: string | undefined; cause?: unknown } = {}) {
    super(message, { cause });
    this.see = see;
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

/** Returns the value of an option with few allowed values. */
export function choice<T extends string>(
  option: string,
  allowed: readonly T[],
  given: string | undefined,
): T | undefined {
  if (given === undefined) return undefined;
  const found = allowed.find((value) => value === given);
  if (found !== undefined) return found;
  throw new UsageError(`${option} must be one of ${allowed.join(', ')}, not "${given}"`);
}

/** Returns the value of an option that is a whole number. */
export function wholeNumber(
  option: string,
  given: string | undefined,
  { min = 0, max = 999_999_999 } = {},
): number | undefined {
  if (given === undefined) return undefined;
  const number = /^\d{1,9}$/.test(given) ? Number(given) : NaN;
  if (number >= min && number <= max) return number;
  throw new UsageError(`${option} must be a whole number from ${min} to ${max}, not "${given}"`);
}

/** Returns the value of `--today`; today in UTC by default. */
export function dayOf(given: string | undefined): Day {
  if (given === undefined) return toDay(new Date());
  const day = readDay(given);
  if (day !== null && day.length === given.length) return day;
  throw new UsageError(`--today must be a day, such as 2026-11-20, not "${given}"`);
}

/** The option of all commands that read inventories. */
export const INPUT_FORMAT_OPTION = { 'input-format': { type: 'string' } } as const;

export const INPUT_FORMAT_HELP =
  '  --input-format json|jsonl|yaml    the format of FILE, whatever its name';

/** Returns the value of `--input-format`; undefined leaves it to the name of the file. */
export function inputFormatOf(values: { 'input-format'?: string }): InventoryFormat | undefined {
  return choice('--input-format', INVENTORY_FORMATS, values['input-format']);
}

/** Thrown when output could not be written. The message is one line: what is wrong and what to do. */
export class WriteError extends Error {
  override name = 'WriteError';
}

// Errors of a stream whose reader has gone away.
const CLOSED = new Set(['EPIPE', 'ERR_STREAM_DESTROYED']);
// UTF-16 code units that are written at once.
const PART_LENGTH = 64 * 1024;

/**
 * Writes to a stream with backpressure. When the reader goes away, as `head` does, it drops the rest and sets
 * `isClosed`; other errors of the stream are thrown, by `end` at the latest.
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
    // The listener stays, as the error of the last write may come late.
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
   * Writes pieces as they are generated, and stops when the reader has gone away.
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
   * @throws WriteError when some of it could not be written.
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
    // A failed stream has its error at once and emits it later.
    if (this.#stream.errored) this.#close(this.#stream.errored);
    if (this.#stream.destroyed) this.isClosed = true;
    if (this.#failure !== null) throw this.#failure;
  }

  #close(error: Error & { code?: unknown }): void {
    this.isClosed = true;
    if (CLOSED.has(String(error.code))) return;
    const reason =
      error.code === 'ENOSPC' ? 'there is no space left; free some and try again' : error.message;
    this.#failure ??= new WriteError(`cannot write to standard output: ${reason}`, {
      cause: error,
    });
  }
}
