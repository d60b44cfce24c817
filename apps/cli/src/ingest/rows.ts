import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { addAbortSignal } from 'node:stream';
import { ArrayScanner } from '@oselya/inventory/array-scanner';
import { CommandError, createFileError, type Io } from '../command.ts';
import { parseJson } from '../http.ts';
import { type CsvOptions, readCsv } from './csv.ts';
import { createInvalidRow, isRecord, type Row, type RowPosition } from './row.ts';
import { type ByteCounts, decodeText } from './text.ts';

export const FILE_FORMATS = ['json', 'jsonl', 'csv'] as const;

export type FileFormat = (typeof FILE_FORMATS)[number];

/** Maximum length of a line. A payload is at most 1 MiB, and JSON escapes may enlarge it sixfold. */
const MAX_LINE_LENGTH = 8 * 1024 * 1024;

/** Infers the format from a file name. Returns undefined for unknown extensions. */
export function inferFormat(path: string): FileFormat | undefined {
  if (/\.json$/i.test(path)) return 'json';
  if (/\.(jsonl|ndjson)$/i.test(path)) return 'jsonl';
  return /\.(csv|tsv)$/i.test(path) ? 'csv' : undefined;
}

type FileOptions = Omit<CsvOptions, 'name'> & {
  path: string;
  format: FileFormat;
  encoding: string;
  stdin: Io['stdin'];
  /** Signal that stops the reader, even while it waits for input. */
  signal: AbortSignal;
};

/**
 * Opens a file of records. Reads records on demand, so memory does not grow with the file.
 * @returns The size in bytes (undefined for a pipe), the name for messages, the rows, and the bytes read so far.
 * @throws CommandError if the file cannot be read. Iterating over the rows may also throw it.
 */
export async function openRows(options: FileOptions): Promise<{
  size: number | undefined;
  name: string;
  rows: AsyncIterable<Row>;
  byteCounts: Readonly<ByteCounts>;
}> {
  const { path, format, encoding, stdin, signal } = options;
  const isStdin = path === '-';
  const name = isStdin ? 'standard input' : path;
  const size = isStdin ? undefined : await getFileSize(path);
  const stream = addAbortSignal(signal, isStdin ? stdin : createReadStream(path));
  // The iteration throws stream errors. After the iteration, an unhandled error of an abort would crash the process.
  stream.on('error', () => undefined);
  const byteCounts = { bytes: 0, utf8Bytes: 0 };
  const text = decodeText(readBytes(stream, { name, signal }), { name, encoding }, byteCounts);
  const readers = {
    json: () => readJsonArray(text, name),
    jsonl: () => readJsonLines(text),
    csv: () => readCsv(text, { ...options, name }),
  };
  return { size, name, rows: readers[format](), byteCounts };
}

async function* readBytes(
  stream: AsyncIterable<Uint8Array>,
  { name, signal }: { name: string; signal: AbortSignal },
): AsyncGenerator<Uint8Array> {
  try {
    yield* stream;
  } catch (cause) {
    throw signal.aborted ? cause : createFileError(name, 'read', cause);
  }
}

async function getFileSize(path: string): Promise<number | undefined> {
  const stats = await stat(path).catch((cause: unknown) => {
    throw createFileError(path, 'read', cause);
  });
  if (stats.isDirectory()) throw createFileError(path, 'read', { code: 'EISDIR' });
  return stats.isFile() ? stats.size : undefined;
}

/**
 * Reads the records of one JSON array in bounded memory.
 * @throws CommandError if the text is not an array, and at the first syntax error.
 */
async function* readJsonArray(text: AsyncIterable<string>, name: string): AsyncGenerator<Row> {
  const scanner = new ArrayScanner();
  let index = 0;
  let hasBegun = false;
  let end = 0;

  const createSyntaxError = (line: number, message: string) =>
    new CommandError(`${name} cannot be read from line ${line} on: ${message}`);

  function* toRows(events: ReturnType<ArrayScanner['push']>): Generator<Row> {
    for (const event of events) {
      if (event.kind === 'problem') {
        throw createSyntaxError(event.problem.position.line, event.problem.message);
      }
      const values = event.kind === 'run' ? event.run.getRawValues() : [event.value];
      for (const { text: content, start, truncation } of values) {
        index += 1;
        const position = { line: start.line, end, index };
        const value = parseJson(content);
        if (truncation?.code.startsWith('limit/'))
          yield createInvalidRow(position, truncation.message, content);
        else if (truncation !== null) throw createSyntaxError(start.line, truncation.message);
        else if (value === undefined) {
          throw createSyntaxError(start.line, `record ${index} is not JSON`);
        } else yield createObjectRow(position, value, content);
      }
    }
  }

  for await (const piece of text) {
    const [firstCharacter] = piece.trimStart();
    if (!hasBegun && firstCharacter !== undefined) {
      hasBegun = true;
      if (firstCharacter !== '[') throw createNotArrayError(name, firstCharacter);
    }
    const bytes = Buffer.from(piece);
    yield* toRows(scanner.push(bytes));
    end += bytes.length;
  }
  if (hasBegun) yield* toRows(scanner.end());
}

function createNotArrayError(name: string, firstCharacter: string): CommandError {
  const advice =
    firstCharacter === '{'
      ? 'add --format jsonl if each line is a record, otherwise put the records into [ and ]'
      : 'name its format with --format';
  return new CommandError(
    `${name} is not a JSON array, because it begins with ${JSON.stringify(firstCharacter)}: ${advice}`,
  );
}

/** Reads a JSON object from each line and skips empty lines. A bad line does not affect the others. */
async function* readJsonLines(text: AsyncIterable<string>): AsyncGenerator<Row> {
  let position = { line: 1, end: 0 };
  let line = '';
  for await (const piece of text) {
    const parts = piece.split('\n');
    for (const [index, part] of parts.entries()) {
      // Drop text beyond the limit, but count its length.
      if (line.length <= MAX_LINE_LENGTH) line += part;
      position.end += Buffer.byteLength(part);
      if (index === parts.length - 1) break;
      if (line.trim() !== '') yield parseLine(line, position);
      position = { line: position.line + 1, end: position.end + 1 };
      line = '';
    }
  }
  if (line.trim() !== '') yield parseLine(line, position);
}

function parseLine(line: string, position: RowPosition): Row {
  if (line.length > MAX_LINE_LENGTH) {
    return createInvalidRow(position, `has more than ${MAX_LINE_LENGTH} characters`, line);
  }
  try {
    return createObjectRow(position, JSON.parse(line), line);
  } catch (error) {
    return createInvalidRow(position, `is not JSON: ${(error as SyntaxError).message}`, line);
  }
}

function createObjectRow(position: RowPosition, value: unknown, text: string): Row {
  if (isRecord(value)) return { ...position, fields: value };
  return createInvalidRow(position, 'is not a JSON object', text);
}
