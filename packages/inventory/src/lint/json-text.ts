import { parseLocated } from '../json/located-parser.ts';
import { JsonSyntaxError } from '../json/syntax-error.ts';
import { quoted } from '../shorten.ts';

/** A text is no JSON, or has a key twice. The message says where and what. */
export class JsonTextError extends Error {
  override name = 'JsonTextError';
  /** Whether it may be JSON, and has more levels than can be read. */
  readonly isTooDeep: boolean;

  constructor(
    message: string,
    { isTooDeep = false, cause }: { isTooDeep?: boolean; cause?: unknown } = {},
  ) {
    super(message, cause === undefined ? {} : { cause });
    this.isTooDeep = isTooDeep;
  }
}

/**
 * The value of a JSON text in which no key is repeated: of two settings of one rule, nobody knows which is meant.
 * @throws JsonTextError whose message begins with LINE:COLUMN.
 */
export function parseJsonText(text: string): unknown {
  const start = { line: 1, column: 1 };
  if (text.trim() === '') throw new JsonTextError('1:1: the file is empty');
  try {
    const { duplicates } = parseLocated(text, { start, what: 'file', enclosing: [], isCut: false });
    const [repeated] = duplicates;
    if (repeated === undefined) return JSON.parse(text);
    const { key, first, again } = repeated;
    throw new JsonTextError(
      `${again.line}:${again.column}: the key ${quoted(key)} is already in this object, at ${first.line}:${first.column}`,
    );
  } catch (error) {
    // The parser goes down by calling itself, and so runs out of stack.
    if (error instanceof RangeError) {
      const message = '1:1: it is nested too deep; make it flatter';
      throw new JsonTextError(message, { isTooDeep: true, cause: error });
    }
    if (!(error instanceof JsonSyntaxError)) throw error;
    const { position, message } = error.problem;
    throw new JsonTextError(`${position.line}:${position.column}: ${message}`, { cause: error });
  }
}
