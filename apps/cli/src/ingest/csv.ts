import { pipeline, Readable } from 'node:stream';
import { parse } from 'csv-parse';
import { CommandError } from '../command-error.ts';
import { badRow, type Place, type Row } from './row.ts';

/** What may stand between cells, by the names that the option has for it. */
export const DELIMITERS = { comma: ',', semicolon: ';', tab: '\t', bar: '|' } as const;

/** One of these names. */
export type DelimiterName = keyof typeof DELIMITERS;

/** A payload is at most 1 MiB; a quote that is never closed must not take the rest of a file in. */
const LONGEST_RECORD = 2 * 1024 * 1024;
const LONGEST_HEADER = 64 * 1024;
const MOST_COLUMNS = 1000;

/** How CSV is read. */
export type CsvOptions = {
  /** The file's name, for error messages. */
  name: string;
  /** Undefined: what the header has most of. */
  delimiter: DelimiterName | undefined;
  /** Told the columns before the first record. */
  onColumns: (columns: string[]) => void;
};

type Parsed = { info: { lines: number; bytes: number }; record: string[] };

/**
 * Reads CSV whose first record names the columns (RFC 4180, quotes in the middle of a cell allowed).
 * @throws CommandError where the file as a whole cannot be read: no header, a column twice or too many, a
 *   quote that is never closed, a line without end.
 */
export async function* readCsv(
  text: AsyncIterable<string>,
  { name, delimiter, onColumns }: CsvOptions,
): AsyncGenerator<Row> {
  const { header, all } = await peekLine(withBoundedLines(text, name));
  // How many records stand before what cannot be parsed.
  let soundRecords = Infinity;
  const parser = parse({
    delimiter: delimiter === undefined ? detectDelimiter(header) : DELIMITERS[delimiter],
    info: true,
    relax_column_count: true,
    relax_quotes: true,
    skip_empty_lines: true,
    max_record_size: LONGEST_RECORD,
    // An error would take along the records before it that nobody has read yet.
    skip_records_with_error: true,
    on_skip: () => {
      soundRecords = Math.min(soundRecords, parser.info.records);
    },
  });
  // The parser is destroyed with the error of the text, and throws it below.
  pipeline(Readable.from(all), parser, () => undefined);
  let columns: string[] | undefined;
  let records = 0;
  let nextLine = 1;
  let doubleEnds = 0;
  for await (const { info, record } of parser as AsyncIterable<Parsed>) {
    if (records === soundRecords) break;
    records += 1;
    // The parser counts "\r\n" within quotes as two line ends.
    doubleEnds += countIn(record, /\r\n/g);
    const lastLine = info.lines - doubleEnds;
    nextLine = lastLine + 1;
    if (columns === undefined) {
      columns = readHeader(name, record);
      onColumns(columns);
    } else {
      yield toRow(columns, record, {
        line: lastLine - countIn(record, /\r\n|\r|\n/g),
        end: info.bytes,
      });
    }
  }
  if (soundRecords < Infinity) throw unreadable(name, nextLine);
  if (columns === undefined) throw empty(name);
}

function unreadable(name: string, line: number): CommandError {
  return new CommandError(
    `${name} cannot be read from line ${line} on: a quote is never closed, or a record is longer than ${LONGEST_RECORD / 1024 / 1024} MiB; double each quote inside a quoted cell`,
  );
}

function empty(name: string): CommandError {
  return new CommandError(`${name} is empty: the first line of CSV names the columns`);
}

/** The delimiter that a header has most of outside of quotes; a comma where it has none. */
export function detectDelimiter(header: string): string {
  const bare = header.replaceAll(/"[^"]*"/g, '');
  const counts = Object.values(DELIMITERS).map((delimiter) => ({
    delimiter,
    count: bare.split(delimiter).length,
  }));
  // The sort is stable, and the comma is the first.
  return counts.toSorted((one, other) => other.count - one.count)[0]?.delimiter ?? ',';
}

function readHeader(name: string, cells: string[]): string[] {
  if (cells.every((cell) => cell.trim() === '')) throw empty(name);
  if (cells.length > MOST_COLUMNS) {
    throw new CommandError(
      `${name} has ${cells.length} columns, and at most ${MOST_COLUMNS} are read: leave out those that say nothing of a listing`,
    );
  }
  const columns = cells.map((cell, index) => cell.trim() || `column_${index + 1}`);
  const twice = columns.find((column, index) => columns.indexOf(column) !== index);
  if (twice === undefined) return columns;
  throw new CommandError(
    `${name} has the column ${JSON.stringify(twice)} twice: give each column a name of its own`,
  );
}

function toRow(columns: string[], cells: string[], place: Place): Row {
  if (cells.length !== columns.length) {
    return badRow(
      place,
      `has ${cells.length} cells, but the header has ${columns.length}`,
      JSON.stringify(cells),
    );
  }
  // Defines the keys, so that a column may have any name.
  const fields: Record<string, unknown> = Object.fromEntries(
    columns.map((column, index) => [column, cells[index]]),
  );
  return { ...place, fields };
}

function countIn(cells: string[], pattern: RegExp): number {
  return cells.reduce((count, cell) => count + (cell.match(pattern)?.length ?? 0), 0);
}

/** The parser counts no delimiters: to it, a line of these alone is a short record, however many they are. */
async function* withBoundedLines(text: AsyncIterable<string>, name: string) {
  let line = 1;
  let length = 0;
  let isAfterReturn = false;
  for await (const piece of text) {
    let begin = 0;
    for (const { index } of piece.matchAll(/[\r\n]/g)) {
      length += index - begin;
      if (length > LONGEST_RECORD) throw unreadable(name, line);
      isAfterReturn &&= index === begin && length === 0;
      if (piece[index] === '\r' || !isAfterReturn) line += 1;
      isAfterReturn = piece[index] === '\r';
      length = 0;
      begin = index + 1;
    }
    length += piece.length - begin;
    if (length > LONGEST_RECORD) throw unreadable(name, line);
    yield piece;
  }
}

/** The first line of a text, and the text as a whole. */
async function peekLine(
  text: AsyncIterable<string>,
): Promise<{ header: string; all: AsyncIterable<string> }> {
  const chunks = text[Symbol.asyncIterator]();
  let begin = '';
  while (!/[^\r\n][\r\n]/.test(begin) && begin.length < LONGEST_HEADER) {
    const next = await chunks.next();
    if (next.done) break;
    begin += next.value;
  }
  async function* all() {
    if (begin !== '') yield begin;
    yield* { [Symbol.asyncIterator]: () => chunks };
  }
  return { header: begin.trimStart().split(/[\r\n]/, 1)[0] ?? '', all: all() };
}
