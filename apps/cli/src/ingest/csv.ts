import { pipeline, Readable } from 'node:stream';
import { CsvError, parse } from 'csv-parse';
import { CommandError } from '../command.ts';
import { createInvalidRow, peek, type Row, type RowPosition } from './row.ts';

/** Delimiters by option name. */
export const DELIMITERS = { comma: ',', semicolon: ';', tab: '\t', bar: '|' } as const;

export type DelimiterName = keyof typeof DELIMITERS;

/** Maximum length of a CSV record, which limits a record with an unclosed quote. */
const MAX_RECORD_LENGTH = 2 * 1024 * 1024;
const MAX_HEADER_LENGTH = 64 * 1024;

export type CsvOptions = {
  name: string;
  /** Delimiter. Undefined to detect it from the header. */
  delimiter: DelimiterName | undefined;
  /** Called with the columns before the first record. */
  onColumns: (columns: string[]) => void;
};

type ParsedRecord = { info: { lines: number; bytes: number }; record: string[] };

/**
 * Reads CSV whose first record names the columns. Quotes inside a cell are allowed.
 * @see RFC 4180
 * @throws CommandError for a missing header, a repeated column, an unclosed quote or an overlong record.
 */
export async function* readCsv(
  text: AsyncIterable<string>,
  { name, delimiter, onColumns }: CsvOptions,
): AsyncGenerator<Row> {
  const { head, allItems } = await peek(text, (pieces) => {
    const beginning = pieces.join('');
    return /[^\r\n][\r\n]/.test(beginning) || beginning.length >= MAX_HEADER_LENGTH;
  });
  const [header = ''] = head
    .join('')
    .trimStart()
    .split(/[\r\n]/, 1);
  const parser = parse({
    delimiter: delimiter === undefined ? detectDelimiter(header) : DELIMITERS[delimiter],
    info: true,
    relax_column_count: true,
    relax_quotes: true,
    skip_empty_lines: true,
    max_record_size: MAX_RECORD_LENGTH,
  });
  // A decoding error destroys the parser, and the loop below throws the error.
  pipeline(Readable.from(allItems), parser, () => undefined);
  let columns: string[] | undefined;
  try {
    for await (const { info, record } of parser as AsyncIterable<ParsedRecord>) {
      if (columns === undefined) {
        columns = parseHeader(name, record);
        onColumns(columns);
        continue;
      }
      const lineBreakCount = record.reduce((count, cell) => count + cell.split('\n').length - 1, 0);
      yield createRow(columns, record, { line: info.lines - lineBreakCount, end: info.bytes });
    }
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    throw new CommandError(
      `${name} cannot be read after line ${parser.info.lines}: a quote is never closed, or a record is longer than ${MAX_RECORD_LENGTH / 1024 / 1024} MiB; double each quote inside a quoted cell`,
      { cause: error },
    );
  }
  if (columns === undefined) throw createEmptyError(name);
}

function createEmptyError(name: string): CommandError {
  return new CommandError(`${name} is empty: the first line of CSV names the columns`);
}

/** Detects the most frequent delimiter of a header outside quotes. Defaults to a comma. */
export function detectDelimiter(header: string): string {
  const unquotedHeader = header.replaceAll(/"[^"]*"/g, '');
  const countCells = (delimiter: string) => unquotedHeader.split(delimiter).length;
  // The sort is stable, so the first of several equally frequent delimiters wins.
  const [bestDelimiter = ','] = Object.values(DELIMITERS).toSorted(
    (one, two) => countCells(two) - countCells(one),
  );
  return bestDelimiter;
}

function parseHeader(name: string, cells: string[]): string[] {
  if (cells.every((cell) => cell.trim() === '')) throw createEmptyError(name);
  const columns = cells.map((cell, index) => cell.trim() || `column_${index + 1}`);
  const repeatedColumn = columns.find((column, index) => columns.indexOf(column) !== index);
  if (repeatedColumn === undefined) return columns;
  throw new CommandError(
    `${name} has the column ${JSON.stringify(repeatedColumn)} twice: give each column its own name`,
  );
}

function createRow(columns: string[], cells: string[], position: RowPosition): Row {
  if (cells.length !== columns.length) {
    const reason = `has ${cells.length} cells, but the header has ${columns.length}`;
    return createInvalidRow(position, reason, JSON.stringify(cells));
  }
  // fromEntries defines keys, so a column may be named `__proto__`.
  const fields = Object.fromEntries(columns.map((column, index) => [column, cells[index]]));
  return { ...position, fields };
}
