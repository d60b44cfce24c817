import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { addAbortSignal } from 'node:stream';
import { CommandError } from '../command-error.ts';
import type { Io } from '../context.ts';
import { type DelimiterName, readCsv } from './csv.ts';
import { readJsonArray } from './json-array.ts';
import { readJsonLines } from './jsonl.ts';
import type { Row } from './row.ts';
import { decodeText, type ReadBytes } from './text.ts';

/** What a file of records may be. */
export const FORMATS = ['json', 'jsonl', 'csv'] as const;

/** One of them. */
export type Format = (typeof FORMATS)[number];

/** Which file, and how it is read. */
export type FileOptions = {
  /** `-` is standard input. */
  path: string;
  format: Format;
  encoding: string;
  delimiter: DelimiterName | undefined;
  onColumns: (columns: string[]) => void;
  stdin: Io['stdin'];
  /** Ends the reading, also while it waits for more. */
  signal: AbortSignal;
};

/** The format that a file's name tells; undefined where it tells none. */
export function formatOf(path: string): Format | undefined {
  if (/\.json$/i.test(path)) return 'json';
  if (/\.(jsonl|ndjson)$/i.test(path)) return 'jsonl';
  return /\.(csv|tsv)$/i.test(path) ? 'csv' : undefined;
}

/**
 * Opens a file of records, which are read as they are asked for: the memory does not grow with the file.
 * @returns Its size in bytes where that is known, its name in messages, the records, and how much was read so far.
 * @throws CommandError where it cannot be read; while reading too.
 */
export async function openRows(options: FileOptions): Promise<{
  size: number | undefined;
  name: string;
  rows: AsyncIterable<Row>;
  read: Readonly<ReadBytes>;
}> {
  const { path, format, encoding, delimiter, onColumns, stdin, signal } = options;
  const name = path === '-' ? 'standard input' : path;
  const size = path === '-' ? undefined : await sizeOf(path);
  const bytes = addAbortSignal(signal, path === '-' ? stdin : createReadStream(path));
  const read = { bytes: 0, utf8Bytes: 0 };
  const text = decodeText(readBytes(bytes, { name, signal }), { name, encoding }, read);
  const readers = {
    json: () => readJsonArray(text, name),
    jsonl: () => readJsonLines(text),
    csv: () => readCsv(text, { name, delimiter, onColumns }),
  };
  return { size, name, rows: readers[format](), read };
}

async function* readBytes(
  bytes: AsyncIterable<Uint8Array>,
  { name, signal }: { name: string; signal: AbortSignal },
): AsyncGenerator<Uint8Array> {
  try {
    yield* bytes;
  } catch (cause) {
    throw signal.aborted ? cause : cannotRead(name, cause);
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder',
  EACCES: 'it may not be read by this user',
};

function cannotRead(name: string, cause: unknown): CommandError {
  const { code = String(cause) } = cause as NodeJS.ErrnoException;
  return new CommandError(`${name} cannot be read: ${REASONS[code] ?? code}`, { cause });
}

async function sizeOf(path: string): Promise<number | undefined> {
  const found = await stat(path).catch((cause: unknown) => {
    throw cannotRead(path, cause);
  });
  if (found.isDirectory()) throw cannotRead(path, { code: 'EISDIR' });
  // A pipe has none.
  return found.isFile() ? found.size : undefined;
}
