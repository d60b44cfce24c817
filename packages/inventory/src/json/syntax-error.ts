import type { Position, Problem } from '../finding.ts';
import { MAX_DEPTH, MAX_RECORD_BYTES, MAX_RECORD_PARTS } from '../limits.ts';
import { shorten } from '../text.ts';

export type OpenDelimiter = { kind: 'array' | 'object' | 'string'; position: Position };

/** Creates a problem for truncated text. The message lists the open delimiters, innermost first. */
export function createTruncationProblem(
  unit: string,
  position: Position,
  open: readonly OpenDelimiter[],
): Problem {
  const innermostFirst = open.toReversed();
  const names = innermostFirst
    .slice(0, 3)
    .map(({ kind, position: { line, column } }) => `the ${kind} opened at ${line}:${column}`);
  if (open.length > 3) names.push(`${open.length - 3} more`);
  const last = names.pop();
  const list = names.length === 0 ? last : `${names.join(', ')} and ${last}`;
  const message =
    open.length === 0
      ? `the ${unit} ends inside a value`
      : `the ${unit} ends here, but ${list} ${open.length === 1 ? 'is' : 'are'} not closed`;
  const related = innermostFirst.map(({ kind, position: place }) => ({
    ...place,
    message: `${kind} opened here`,
  }));
  return { code: 'json/truncated', message, position, related };
}

export function createUnexpectedProblem(
  found: string,
  expected: string,
  position: Position,
): Problem {
  const message = getHint(found) ?? `expected ${expected}, found ${formatCharacter(found)}`;
  return { code: 'json/syntax', message, position };
}

/** Formats a character or word for a message. Invisible characters become code points. */
export function formatCharacter(found: string): string {
  const [first = ''] = found;
  if (!/[\p{C}\p{Z}]/u.test(first)) return found.includes('"') ? `'${found}'` : `"${found}"`;
  return `U+${(first.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
}

export const NO_COMMENTS_MESSAGE = 'JSON has no comments; remove it';

/** Tells whether a character outside strings starts a comment in other languages. */
export function isCommentStart(character: string): boolean {
  return character === '/' || character === '#';
}

function getHint(found: string): string | null {
  if (isCommentStart(found)) return NO_COMMENTS_MESSAGE;
  if (found === "'") return "JSON strings use double quotes, not single quotes (')";
  if (found === '`') return 'JSON strings use double quotes, not backticks (`)';
  return /[“”„‘’«»]/u.test(found)
    ? `JSON strings use straight double quotes ("), not typographic ones (${found})`
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
  const needsDigit = /^-?\d+\.(\D|$)/.test(word);
  return needsDigit ? `the number ${word} needs a digit after the decimal point` : null;
}

/**
 * Creates a problem for a record that exceeds a limit.
 * @param position Start of the record, or the position at which it exceeds the depth limit.
 * @param unit Skipped unit: the rest of the record or of the line.
 */
export function createLimitProblem(
  limit: 'too-large' | 'too-many' | 'too-deep',
  position: Position,
  unit: 'record' | 'line',
): Problem {
  const excess = {
    'too-large': `the record exceeds ${MAX_RECORD_BYTES / 1024 / 1024} MiB; make it smaller`,
    'too-many': `the record exceeds ${MAX_RECORD_PARTS} objects, lists and strings; make it smaller`,
    'too-deep': `values are nested more than ${MAX_DEPTH} levels deep; flatten them`,
  };
  const code = limit === 'too-deep' ? 'limit/depth' : 'limit/record-size';
  return { code, message: `${excess[limit]}: the rest of the ${unit} was skipped`, position };
}
