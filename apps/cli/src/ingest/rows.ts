import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { addAbortSignal } from 'node:stream';
import { ArrayScanner } from '@oselya/inventory/array-scanner';
import { CommandError, type Io } from '../command.ts';
import { parseJson } from '../http.ts';
import { type DelimiterName, readCsv } from './csv.ts';
import { createBadRow, isRecord, type RowPosition, type Row } from './row.ts';
import { decodeText, type ByteCounts } from './text.ts';

/** Supported file formats. */
export const FILE_FORMATS = ['json', 'jsonl', 'csv'] as const;

/** A supported file format. */
export type FileFormat = (typeof FILE_FORMATS)[number];

/** A payload has at most 1 MiB. JSON escapes may enlarge it six times. */
const MAX_LINE_LENGTH = 8 * 1024 * 1024;

/** Infers the format from a file name. Returns undefined for unknown extensions. */
export function inferFormat(path: string): FileFormat | undefined {
  if (/\.json$/i.test(path)) return 'json';
  if (/\.(jsonl|ndjson)$/i.test(path)) return 'jsonl';
  return /\.(csv|tsv)$/i.test(path) ? 'csv' : undefined;
}

/** Options for reading a file of records. */
export type FileOptions = {
  /** Path of the file. `-` means standard input. */
  path: string;
  format: FileFormat;
  encoding: string;
  /** CSV delimiter. Undefined to detect it from the header. */
  delimiter: DelimiterName | undefined;
  /** Called with the columns of CSV before the first record. */
  onColumns: (columns: string[]) => void;
  stdin: Io['stdin'];
  /** Signal that ends the reading, even while it waits for input. */
  signal: AbortSignal;
};

/**
 * Opens a file of records. Records are read on demand, so memory does not grow with the file.
 * @returns The size in bytes (undefined for a pipe), the name for messages, the rows, and the bytes read so far.
 * @throws CommandError if the file cannot be read. The iteration of the rows may throw it too.
 */
export async function openRows(options: FileOptions): Promise<{
  size: number | undefined;
  name: string;
  rows: AsyncIterable<Row>;
  read: Readonly<ByteCounts>;
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
  EACCES: 'this user may not read it',
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
  return found.isFile() ? found.size : undefined;
}

/**
 * Reads the records of one JSON array with one record in memory.
 * @throws CommandError if the text is not an array, and at the first syntax error.
 */
export async function* readJsonArray(
  text: AsyncIterable<string>,
  name: string,
): AsyncGenerator<Row> {
  const scanner = new ArrayScanner();
  let index = 0;
  let hasBegun = false;
  let end = 0;

  function* rowsOf(events: ReturnType<ArrayScanner['push']>): Generator<Row> {
    for (const event of events) {
      if (event.kind === 'problem') {
        throw unreadable(name, event.problem.position.line, event.problem.message);
      }
      for (const { text: content, start, cut } of event.kind === 'run'
        ? event.run.rawValues()
        : [event.value]) {
        index += 1;
        const place = { line: start.line, end, index };
        const value = parseJson(content);
        if (cut?.code.startsWith('limit/')) yield createBadRow(place, cut.message, content);
        else if (cut !== null) throw unreadable(name, start.line, cut.message);
        else if (value === undefined)
          throw unreadable(name, start.line, `record ${index} is not JSON`);
        else if (isRecord(value)) yield { ...place, fields: value };
        else yield createBadRow(place, 'is not a JSON object', content);
      }
    }
  }

  for await (const piece of text) {
    const [first] = piece.trimStart();
    if (!hasBegun && first !== undefined) {
      hasBegun = true;
      if (first !== '[') throw notAnArray(name, first);
    }
    const bytes = Buffer.from(piece);
    yield* rowsOf(scanner.push(bytes));
    end += bytes.length;
  }
  if (hasBegun) yield* rowsOf(scanner.end());
}

function unreadable(name: string, line: number, message: string): CommandError {
  return new CommandError(`${name} cannot be read from line ${line} on: ${message}`);
}

function notAnArray(name: string, first: string): CommandError {
  const advice =
    first === '{'
      ? 'add --format jsonl if each line is a record, otherwise put the records into [ and ]'
      : 'name its format with --format';
  return new CommandError(
    `${name} is not a JSON array, because it begins with ${JSON.stringify(first)}: ${advice}`,
  );
}

/** Reads a JSON object from each line and skips empty lines. A bad line does not affect the others. */
export async function* readJsonLines(text: AsyncIterable<string>): AsyncGenerator<Row> {
  let place = { line: 1, end: 0 };
  let line = '';
  for await (const piece of text) {
    const parts = piece.split('\n');
    for (const [nth, part] of parts.entries()) {
      // Text beyond the limit is dropped. Only its length is counted.
      if (line.length <= MAX_LINE_LENGTH) line += part;
      place.end += Buffer.byteLength(part);
      if (nth === parts.length - 1) break;
      if (line.trim() !== '') yield parseLine(line, place);
      place = { line: place.line + 1, end: place.end + 1 };
      line = '';
    }
  }
  if (line.trim() !== '') yield parseLine(line, place);
}

function parseLine(line: string, place: RowPosition): Row {
  if (line.length > MAX_LINE_LENGTH) {
    return createBadRow(place, `has more than ${MAX_LINE_LENGTH} characters`, line);
  }
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    return createBadRow(place, `is not JSON: ${(error as SyntaxError).message}`, line);
  }
  return isRecord(value)
    ? { ...place, fields: value }
    : createBadRow(place, 'is not a JSON object', line);
}
