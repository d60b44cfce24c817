import type { Position, Problem } from '../finding.ts';
import { MAX_DEPTH, MAX_RECORD_BYTES, MAX_RECORD_PARTS } from '../limits.ts';
import { shorten } from '../text.ts';

export type OpenDelimiter = { kind: 'array' | 'object' | 'string'; position: Position };

/** Creates a problem for truncated text. The message names up to three open delimiters, innermost first. */
export function createTruncationProblem(
  unit: string,
  position: Position,
  openDelimiters: readonly OpenDelimiter[],
): Problem {
  const innermostFirst = openDelimiters.toReversed();
  const names = innermostFirst
    .slice(0, 3)
    .map(({ kind, position: { line, column } }) => `the ${kind} opened at ${line}:${column}`);
  if (openDelimiters.length > 3) names.push(`${openDelimiters.length - 3} more`);
  const lastName = names.pop();
  const delimiterList = names.length === 0 ? lastName : `${names.join(', ')} and ${lastName}`;
  const message =
    openDelimiters.length === 0
      ? `the ${unit} ends inside a value`
      : `the ${unit} ends here, but ${delimiterList} ${openDelimiters.length === 1 ? 'is' : 'are'} not closed`;
  const related = innermostFirst.map(({ kind, position: delimiterPosition }) => ({
    ...delimiterPosition,
    message: `${kind} opened here`,
  }));
  return { code: 'json/truncated', message, position, related };
}

/** Creates a problem for a character that JSON does not allow at its position. Frequent mistakes get a hint. */
export function createUnexpectedProblem(
  character: string,
  expected: string,
  position: Position,
): Problem {
  const message = getHint(character) ?? `expected ${expected}, found ${formatCharacter(character)}`;
  return { code: 'json/syntax', message, position };
}

/** Formats a character or word for a message. Invisible characters become code points. */
export function formatCharacter(text: string): string {
  const [firstCharacter = ''] = text;
  if (!/[\p{C}\p{Z}]/u.test(firstCharacter)) return text.includes('"') ? `'${text}'` : `"${text}"`;
  return `U+${(firstCharacter.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
}

export const NO_COMMENTS_MESSAGE = 'JSON has no comments; remove it';

/** Returns whether a character outside strings starts a comment in other languages. */
export function isCommentStart(character: string): boolean {
  return character === '/' || character === '#';
}

function getHint(character: string): string | null {
  if (isCommentStart(character)) return NO_COMMENTS_MESSAGE;
  if (character === "'") return "JSON strings use double quotes, not single quotes (')";
  if (character === '`') return 'JSON strings use double quotes, not backticks (`)';
  return /[“”„‘’«»]/u.test(character)
    ? `JSON strings use straight double quotes ("), not typographic ones (${character})`
    : null;
}

const WORD_HINTS = new Map([
  ['NaN', 'JSON has no NaN; write null or omit the property'],
  ['Infinity', 'JSON has no Infinity; numbers are finite'],
  ['-Infinity', 'JSON has no Infinity; numbers are finite'],
  ['undefined', 'JSON has no undefined; write null or omit the property'],
  ['None', 'JSON has no None; write null'],
  ['True', 'JSON has no True; write true'],
  ['False', 'JSON has no False; write false'],
]);

/** Creates a problem for a word other than a number, `true`, `false` or `null`. */
export function createBadWordProblem(word: string, position: Position): Problem {
  const message =
    WORD_HINTS.get(word) ??
    getNumberHint(shorten(word)) ??
    `${formatCharacter(word.slice(0, 40))} is not a JSON value; write strings in double quotes`;
  return { code: 'json/syntax', message, position };
}

function getNumberHint(word: string): string | null {
  if (/^-?0\d+/.test(word)) return `the number ${word} begins with 0; remove the leading zero`;
  if (/^\+[\d.]/.test(word)) return `the number ${word} begins with +; remove the sign`;
  if (/^-?\./.test(word)) return `the number ${word} needs a digit before the decimal point`;
  if (/^-?0x/i.test(word)) return `${word} is hexadecimal; JSON numbers are decimal`;
  const isMissingDigit = /^-?\d+\.(\D|$)/.test(word);
  return isMissingDigit ? `the number ${word} needs a digit after the decimal point` : null;
}

/**
 * Creates a problem for a record that exceeds a limit.
 * @param position Start of the record, or the position at which it exceeds the depth limit.
 * @param unit Whether the rest of the record or of the line is skipped.
 */
export function createLimitProblem(
  limit: 'too-large' | 'too-many' | 'too-deep',
  position: Position,
  unit: 'record' | 'line',
): Problem {
  const messages = {
    'too-large': `the record exceeds ${MAX_RECORD_BYTES / 1024 / 1024} MiB; make it smaller`,
    'too-many': `the record exceeds ${MAX_RECORD_PARTS} objects, lists and strings; make it smaller`,
    'too-deep': `values are nested more than ${MAX_DEPTH} levels deep; flatten them`,
  };
  const code = limit === 'too-deep' ? 'limit/depth' : 'limit/record-size';
  return { code, message: `${messages[limit]}: the rest of the ${unit} was skipped`, position };
}
