import { ArrayScanner } from '@oselya/inventory/array-scanner';
import { CommandError } from '../command-error.ts';
import { parseJson } from '../json.ts';
import { badRow, isRecord, type Row } from './row.ts';

/**
 * Reads the records of one JSON array, holding no more than one of them and a piece of the text.
 * @param name The file's name, for error messages.
 * @throws CommandError if it is no array, and at the first syntax error, after which records cannot be told apart.
 */
export async function* readJsonArray(
  text: AsyncIterable<string>,
  name: string,
): AsyncGenerator<Row> {
  const scanner = new ArrayScanner();
  let index = 0;
  let isBegun = false;
  let end = 0;

  function* valuesOf(events: ReturnType<ArrayScanner['push']>) {
    for (const event of events) {
      if (event.kind === 'problem') {
        throw unreadable(name, event.problem.position.line, event.problem.message);
      }
      if (event.kind === 'run') yield* event.run.rawValues();
      else yield event.value;
    }
  }

  function* rowsOf(events: ReturnType<ArrayScanner['push']>): Generator<Row> {
    for (const { text: content, start, cut } of valuesOf(events)) {
      index += 1;
      const place = { line: start.line, end, index };
      const value = parseJson(content);
      if (cut?.code.startsWith('limit/')) yield badRow(place, cut.message, content);
      else if (cut !== null) throw unreadable(name, start.line, cut.message);
      else if (value === undefined)
        throw unreadable(name, start.line, `record ${index} is no JSON`);
      else if (isRecord(value)) yield { ...place, fields: value };
      else yield badRow(place, 'is no JSON object', content);
    }
  }

  for await (const piece of text) {
    const [first] = piece.trimStart();
    if (!isBegun && first !== undefined) {
      isBegun = true;
      if (first !== '[') throw noArray(name, first);
    }
    const bytes = Buffer.from(piece);
    yield* rowsOf(scanner.push(bytes));
    end += bytes.length;
  }
  if (isBegun) yield* rowsOf(scanner.end());
}

function unreadable(name: string, line: number, message: string): CommandError {
  return new CommandError(`${name} cannot be read from line ${line} on: ${message}`);
}

function noArray(name: string, first: string): CommandError {
  const advice =
    first === '{'
      ? 'add --format jsonl if each line is a record, else put the records into [ and ]'
      : 'add the --format that it has';
  return new CommandError(
    `${name} is no JSON array, since it begins with ${JSON.stringify(first)}: ${advice}`,
  );
}
