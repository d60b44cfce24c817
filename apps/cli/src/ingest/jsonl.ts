import { badRow, isRecord, type Place, type Row } from './row.ts';

/**
 * The longest line that is looked at: a payload is at most 1 MiB, and its JSON may be written with six
 * characters for each.
 */
const LONGEST_LINE = 8 * 1024 * 1024;

/** Reads a JSON object from each line; empty lines are none. A line that is none spoils no other. */
export async function* readJsonLines(text: AsyncIterable<string>): AsyncGenerator<Row> {
  for await (const line of splitLines(text)) {
    if (!line.isComplete) {
      yield badRow(line, `has more than ${LONGEST_LINE} characters`, line.content);
    } else if (line.content.trim() !== '') {
      yield readLine(line);
    }
  }
}

function readLine({ line, end, content }: Line): Row {
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return badRow({ line, end }, `is no JSON: ${reason}`, content);
  }
  return isRecord(value)
    ? { line, end, fields: value }
    : badRow({ line, end }, 'is no JSON object', content);
}

type Line = Place & { content: string; isComplete: boolean };

/** Splits text at its line ends; of a line that is too long the beginning is kept, and no more. */
async function* splitLines(text: AsyncIterable<string>): AsyncGenerator<Line> {
  let current: Line = { line: 1, end: 0, content: '', isComplete: true };
  const add = (part: string) => {
    current.end += Buffer.byteLength(part);
    current.isComplete &&= current.content.length + part.length <= LONGEST_LINE;
    if (current.isComplete) current.content += part;
  };
  for await (const chunk of text) {
    let start = 0;
    for (let end = chunk.indexOf('\n'); end !== -1; end = chunk.indexOf('\n', start)) {
      add(chunk.slice(start, end));
      yield current;
      current = { line: current.line + 1, end: current.end + 1, content: '', isComplete: true };
      start = end + 1;
    }
    add(chunk.slice(start));
  }
  yield current;
}
