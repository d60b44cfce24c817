import { parseLocated } from '../json/located-parser.ts';
import { JsonSyntaxError } from '../json/syntax-error.ts';
import { quoted } from '../shorten.ts';

/** A text is no JSON, or has a key twice. The message says where and what. */
export class JsonTextError extends Error {
  override name = 'JsonTextError';
}

/**
 * The value of a JSON text in which no key is repeated: of two settings of one rule, nobody knows which is meant.
 * @throws JsonTextError whose message begins with LINE:COLUMN.
 */
export function parseJsonText(text: string): unknown {
  const start = { line: 1, column: 1 };
  try {
    const { duplicates } = parseLocated(text, { start, what: 'file', enclosing: [], isCut: false });
    const [repeated] = duplicates;
    if (repeated === undefined) return JSON.parse(text);
    const { key, first, again } = repeated;
    throw new JsonTextError(
      `${again.line}:${again.column}: the key ${quoted(key)} is already in this object, at ${first.line}:${first.column}`,
    );
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    const { position, message } = error.problem;
    throw new JsonTextError(`${position.line}:${position.column}: ${message}`, { cause: error });
  }
}
