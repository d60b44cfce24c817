import { pipeline, Readable } from 'node:stream';
import { CsvError, parse } from 'csv-parse';
import { CommandError } from '../command.ts';
import { createBadRow, type Row } from './row.ts';

/** The delimiters by their option names. */
export const DELIMITERS = { comma: ',', semicolon: ';', tab: '\t', bar: '|' } as const;

/** The option name of a delimiter. */
export type DelimiterName = keyof typeof DELIMITERS;

/** Limit of a CSV record. It stops a record with an unclosed quote. */
const MAX_RECORD_LENGTH = 2 * 1024 * 1024;
const MAX_HEADER_LENGTH = 64 * 1024;

/** Options for reading CSV. */
export type CsvOptions = {
  /** The file's name, for error messages. */
  name: string;
  /** Delimiter. Undefined to detect it from the header. */
  delimiter: DelimiterName | undefined;
  /** Called with the columns before the first record. */
  onColumns: (columns: string[]) => void;
};

type Parsed = { info: { lines: number; bytes: number }; record: string[] };

/**
 * Reads CSV whose first record names the columns. Quotes inside a cell are allowed.
 * @see RFC 4180
 * @throws CommandError for a missing header, a repeated column, an unclosed quote or a too long record.
 */
export async function* readCsv(
  text: AsyncIterable<string>,
  { name, delimiter, onColumns }: CsvOptions,
): AsyncGenerator<Row> {
  const { header, all } = await peekLine(text);
  const parser = parse({
    delimiter: delimiter === undefined ? detectDelimiter(header) : DELIMITERS[delimiter],
    info: true,
    relax_column_count: true,
    relax_quotes: true,
    skip_empty_lines: true,
    max_record_size: MAX_RECORD_LENGTH,
  });
  // A decoding error destroys the parser, and the loop below throws the error.
  pipeline(Readable.from(all), parser, () => undefined);
  let columns: string[] | undefined;
  try {
    for await (const { info, record } of parser as AsyncIterable<Parsed>) {
      if (columns === undefined) {
        columns = readHeader(name, record);
        onColumns(columns);
        continue;
      }
      const lineEnds = record.reduce((count, cell) => count + cell.split('\n').length - 1, 0);
      yield toRow(columns, record, { line: info.lines - lineEnds, end: info.bytes });
    }
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    throw new CommandError(
      `${name} cannot be read after line ${parser.info.lines}: a quote is never closed, or a record is longer than ${MAX_RECORD_LENGTH / 1024 / 1024} MiB; double each quote inside a quoted cell`,
      { cause: error },
    );
  }
  if (columns === undefined) throw empty(name);
}

function empty(name: string): CommandError {
  return new CommandError(`${name} is empty: the first line of CSV names the columns`);
}

/** Detects the most frequent delimiter of a header outside quotes. Defaults to a comma. */
export function detectDelimiter(header: string): string {
  const bare = header.replaceAll(/"[^"]*"/g, '');
  const count = (delimiter: string) => bare.split(delimiter).length;
  // The sort is stable, so a tie selects the comma.
  const [best = ','] = Object.values(DELIMITERS).toSorted(
    (one, other) => count(other) - count(one),
  );
  return best;
}

function readHeader(name: string, cells: string[]): string[] {
  if (cells.every((cell) => cell.trim() === '')) throw empty(name);
  const columns = cells.map((cell, index) => cell.trim() || `column_${index + 1}`);
  const repeated = columns.find((column, index) => columns.indexOf(column) !== index);
  if (repeated === undefined) return columns;
  throw new CommandError(
    `${name} has the column ${JSON.stringify(repeated)} twice: give each column its own name`,
  );
}

function toRow(columns: string[], cells: string[], place: { line: number; end: number }): Row {
  if (cells.length !== columns.length) {
    return createBadRow(
      place,
      `has ${cells.length} cells, but the header has ${columns.length}`,
      JSON.stringify(cells),
    );
  }
  // fromEntries defines keys, so a column may be named `__proto__`.
  return {
    ...place,
    fields: Object.fromEntries(columns.map((column, nth) => [column, cells[nth]])),
  };
}

/** Peeks at the first line. `all` still yields the whole text. */
async function peekLine(
  text: AsyncIterable<string>,
): Promise<{ header: string; all: AsyncIterable<string> }> {
  const chunks = text[Symbol.asyncIterator]();
  let begin = '';
  while (!/[^\r\n][\r\n]/.test(begin) && begin.length < MAX_HEADER_LENGTH) {
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
