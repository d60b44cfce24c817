import type { Writable } from 'node:stream';
import { parseArgs } from 'node:util';
import { type Day, parseDay } from '../day.ts';
import { INVENTORY_FORMATS } from '../read/input.ts';

/** Parts of `process` that the commands use. */
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
   * Runs the command. Returns the exit status: 0 for success, 1 for problems, 2 for unreadable input.
   * @throws UsageError, WriteError.
   */
  run(argv: string[], context: Context): Promise<number>;
};

/** Thrown for invalid arguments or unusable files. The one-line message names the error and its remedy. */
export class UsageError extends Error {
  override name = 'UsageError';
  /** Arguments of a command that explains more, such as `validate --help` or `validate FILE`. */
  readonly helpArguments: string | undefined;

  constructor(
    message: string,
    { helpArguments, cause }: { helpArguments?: string | undefined; cause?: unknown } = {},
  ) {
    super(message, { cause });
    this.helpArguments = helpArguments;
  }
}

/** Option of a command. `parse` converts a value, or throws a UsageError that names the option. */
type Option = {
  type: 'string' | 'boolean';
  multiple?: boolean;
  parse: (text: string, name: string) => unknown;
};

export type OptionValues<Options extends Record<string, Option>> = {
  [Name in keyof Options]?: Options[Name] extends { multiple: true }
    ? ReturnType<Options[Name]['parse']>[]
    : ReturnType<Options[Name]['parse']>;
};

/**
 * Parses command arguments.
 * @throws UsageError about the first invalid argument.
 */
export function parseArguments<Options extends Record<string, Option>>(
  command: string,
  args: string[],
  options: Options,
): { values: OptionValues<Options>; positionals: string[] } {
  const { values, positionals } = parseStrings(command, args, options);
  const parsedValues = Object.entries(values).map(([name, optionValue]) => {
    const parse = (value: string | boolean) =>
      typeof value === 'string' ? options[name]?.parse(value, `--${name}`) : value;
    return [name, Array.isArray(optionValue) ? optionValue.map(parse) : parse(optionValue ?? '')];
  });
  // Each value has the type of its option's parser.
  return { values: Object.fromEntries(parsedValues) as OptionValues<Options>, positionals };
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
    throw new UsageError(message, { helpArguments: `${command} --help`, cause: error });
  }
}

export const flagOption = { type: 'boolean', parse: () => true } as const;
export const textOption = { type: 'string', parse: (text: string) => text } as const;

/** Creates an option with a fixed set of values. */
export function createChoiceOption<const T extends string>(...choices: readonly T[]) {
  const parse = (text: string, name: string): T => {
    const choice = choices.find((value) => value === text);
    if (choice !== undefined) return choice;
    throw new UsageError(`${name} must be one of ${choices.join(', ')}, not "${text}"`);
  };
  return { type: 'string', parse } as const;
}

/** Creates an option whose value is a whole number. */
export function createNumberOption({ min = 0, max = 999_999_999 } = {}) {
  const parse = (text: string, name: string): number => {
    const number = /^\d{1,9}$/.test(text) ? Number(text) : NaN;
    if (number >= min && number <= max) return number;
    throw new UsageError(`${name} must be a whole number from ${min} to ${max}, not "${text}"`);
  };
  return { type: 'string', parse } as const;
}

export const dayOption = {
  type: 'string',
  parse(text: string, name: string): Day {
    const day = parseDay(text);
    if (day !== null && day.length === text.length) return day;
    throw new UsageError(`${name} must be a day, such as 2026-11-20, not "${text}"`);
  },
} as const;

/** Option of all commands that read inventories. Without it, the file name determines the format. */
export const INPUT_FORMAT_OPTION = { 'input-format': createChoiceOption(...INVENTORY_FORMATS) };

export const INPUT_FORMAT_HELP =
  '  --input-format json|jsonl|yaml    the format of FILE, whatever its name';

/** Thrown if output cannot be written. The one-line message names the error, and the remedy for a full disk. */
export class WriteError extends Error {
  override name = 'WriteError';
}

const CLOSED_STREAM_CODES = new Set(['EPIPE', 'ERR_STREAM_DESTROYED']);
const MAX_WRITE_CHARACTERS = 64 * 1024;

/**
 * Writes to a stream with backpressure. Drops output and sets `isClosed` after an error, or after the reader closes the
 * stream, as `head` does.
 */
export class Printer {
  isClosed = false;
  readonly #stream: Writable;
  #finishWrite: ((error?: NodeJS.ErrnoException | null) => void) | undefined;

  constructor(stream: Writable) {
    this.#stream = stream;
    // The callbacks of `write` receive the errors.
    stream.on('error', () => undefined);
    // A destroyed stream does not call the callback of the write in progress.
    stream.once('close', () => {
      this.isClosed = true;
      this.#finishWrite?.();
    });
  }

  /** Writes text. @throws WriteError if the text cannot be written. */
  async write(text: string): Promise<void> {
    if (this.isClosed || text === '') return;
    const error = await new Promise<NodeJS.ErrnoException | null | undefined>((resolve) => {
      this.#finishWrite = resolve;
      this.#stream.write(text, resolve);
    });
    if (!error) return;
    this.isClosed = true;
    if (CLOSED_STREAM_CODES.has(error.code ?? '')) return;
    const reason =
      error.code === 'ENOSPC' ? 'there is no space left; free some and try again' : error.message;
    throw new WriteError(`cannot write to standard output: ${reason}`, { cause: error });
  }

  /**
   * Writes strings in batches as they are generated. Stops if the reader closes the stream.
   * @throws WriteError if a string cannot be written.
   */
  async writeAll(pieces: Iterable<string>): Promise<void> {
    let bufferedText = '';
    for (const piece of pieces) {
      bufferedText += piece;
      if (bufferedText.length < MAX_WRITE_CHARACTERS) continue;
      await this.write(bufferedText);
      if (this.isClosed) return;
      bufferedText = '';
    }
    await this.write(bufferedText);
  }
}
