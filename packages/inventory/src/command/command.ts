import type { Writable } from 'node:stream';
import { parseArgs } from 'node:util';
import { type Day, parseDay } from '../day.ts';
import { INVENTORY_FORMATS } from '../read/input.ts';

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

/** Context of a running command. `log` writes a line to standard error, prefixed with the command name. */
export type Context = { io: InventoryIo; out: Printer; log: (message: string) => void };

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

/** Option of a command. `parse` converts a value, or throws a UsageError with the name of the option. */
type Option = {
  type: 'string' | 'boolean';
  multiple?: boolean;
  parse: (given: string, name: string) => unknown;
};

type Values<Options extends Record<string, Option>> = {
  [Name in keyof Options]?: Options[Name] extends { multiple: true }
    ? ReturnType<Options[Name]['parse']>[]
    : ReturnType<Options[Name]['parse']>;
};

/**
 * Parses the arguments of a command.
 * @throws UsageError about the first invalid argument.
 */
export function parseArguments<Options extends Record<string, Option>>(
  command: string,
  args: string[],
  options: Options,
): { values: Values<Options>; positionals: string[] } {
  const { values, positionals } = parseStrings(command, args, options);
  const parsed = Object.entries(values).map(([name, given]) => {
    const parse = (text: string | boolean) =>
      typeof text === 'string' ? options[name]?.parse(text, `--${name}`) : text;
    return [name, Array.isArray(given) ? given.map(parse) : parse(given ?? '')];
  });
  // Each value has the type of its option's parser.
  return { values: Object.fromEntries(parsed) as Values<Options>, positionals };
}

function parseStrings(command: string, args: string[], options: Record<string, Option>) {
  try {
    return parseArgs({ args, allowPositionals: true, options });
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    // The first sentence of Node's message describes the error.
    const [sentence = ''] = error.message.split(/\.\s/);
    const [, option] = /(--[\w-]+)[^']*' argument is ambiguous/.exec(sentence) ?? [];
    const message =
      option === undefined
        ? sentence.replaceAll('\n', ' ')
        : `${option} has no value; write one that begins with a dash as ${option}=VALUE`;
    throw new UsageError(message, { see: `${command} --help`, cause: error });
  }
}

export const flagOption = { type: 'boolean', parse: () => true } as const;
export const textOption = { type: 'string', parse: (given: string) => given } as const;

/** Creates an option with a fixed set of values. */
export function choiceOption<const T extends string>(...allowed: readonly T[]) {
  const parse = (given: string, name: string): T => {
    const found = allowed.find((value) => value === given);
    if (found !== undefined) return found;
    throw new UsageError(`${name} must be one of ${allowed.join(', ')}, not "${given}"`);
  };
  return { type: 'string', parse } as const;
}

/** Creates an option whose value is a whole number. */
export function numberOption({ min = 0, max = 999_999_999 } = {}) {
  const parse = (given: string, name: string): number => {
    const number = /^\d{1,9}$/.test(given) ? Number(given) : NaN;
    if (number >= min && number <= max) return number;
    throw new UsageError(`${name} must be a whole number from ${min} to ${max}, not "${given}"`);
  };
  return { type: 'string', parse } as const;
}

/** Option whose value is a day. */
export const dayOption = {
  type: 'string',
  parse(given: string, name: string): Day {
    const day = parseDay(given);
    if (day !== null && day.length === given.length) return day;
    throw new UsageError(`${name} must be a day, such as 2026-11-20, not "${given}"`);
  },
} as const;

/** Option of all commands that read inventories. Without it, the file name determines the format. */
export const INPUT_FORMAT_OPTION = { 'input-format': choiceOption(...INVENTORY_FORMATS) };

export const INPUT_FORMAT_HELP =
  '  --input-format json|jsonl|yaml    the format of FILE, whatever its name';

/** Thrown if output cannot be written. The one-line message names the error and its remedy. */
export class WriteError extends Error {
  override name = 'WriteError';
}

const CLOSED_STREAM_CODES = new Set(['EPIPE', 'ERR_STREAM_DESTROYED']);
const MAX_WRITE_CHARACTERS = 64 * 1024;

/** Writes to a stream with backpressure. Drops output and sets `isClosed` after the reader closes the stream, as `head` does. */
export class Printer {
  isClosed = false;
  readonly #stream: Writable;
  #finishWrite: ((error?: NodeJS.ErrnoException | null) => void) | undefined;

  constructor(stream: Writable) {
    this.#stream = stream;
    // The callbacks of `write` get the errors.
    stream.on('error', () => undefined);
    // A destroyed stream does not call the callback of the write in progress.
    stream.once('close', () => {
      this.isClosed = true;
      this.#finishWrite?.();
    });
  }

  /** @throws WriteError if the text cannot be written. */
  async write(text: string): Promise<void> {
    if (this.isClosed || text === '') return;
    const error = await new Promise<NodeJS.ErrnoException | null | undefined>((done) => {
      this.#finishWrite = done;
      this.#stream.write(text, done);
    });
    if (!error) return;
    this.isClosed = true;
    if (CLOSED_STREAM_CODES.has(error.code ?? '')) return;
    const reason =
      error.code === 'ENOSPC' ? 'there is no space left; free some and try again' : error.message;
    throw new WriteError(`cannot write to standard output: ${reason}`, { cause: error });
  }

  /**
   * Writes pieces as they are generated. Stops if the reader closes the stream.
   * @throws WriteError if a piece cannot be written.
   */
  async writeAll(pieces: Iterable<string>): Promise<void> {
    let part = '';
    for (const piece of pieces) {
      part += piece;
      if (part.length < MAX_WRITE_CHARACTERS) continue;
      await this.write(part);
      if (this.isClosed) return;
      part = '';
    }
    await this.write(part);
  }
}
