import type { FindingCode, Position, Problem } from '../finding.ts';
import { shorten } from '../shorten.ts';

/** Something that was opened and is not closed yet. */
export type Opened = {
  kind: 'array' | 'object' | 'string';
  position: Position;
};

/** Thrown for text that is no JSON; says what is wrong, and at which offset of the text. */
export class JsonSyntaxError extends Error {
  readonly problem: Problem;
  readonly offset: number;

  constructor(problem: Problem, offset: number) {
    super(problem.message);
    this.name = 'JsonSyntaxError';
    this.problem = problem;
    this.offset = offset;
  }
}

/** The problem of text that ends too early: everything still open, the innermost first. */
export function truncated(what: string, position: Position, open: readonly Opened[]): Problem {
  const innermostFirst = open.toReversed();
  const named = innermostFirst
    .slice(0, 3)
    .map(({ kind, position: { line, column } }) => `the ${kind} opened at ${line}:${column}`);
  if (open.length > 3) named.push(`${open.length - 3} more`);
  const last = named.pop();
  const list = named.length === 0 ? last : `${named.join(', ')} and ${last}`;
  return {
    code: 'json/truncated',
    message:
      open.length === 0
        ? `the ${what} ends inside a value`
        : `the ${what} ends here, but ${list} ${open.length === 1 ? 'is' : 'are'} not closed`,
    position,
    related: innermostFirst.map(({ kind, position: { line, column } }) => ({
      line,
      column,
      message: `${kind} opened here`,
    })),
  };
}

/** The problem of a character that JSON does not allow at its place. */
export function unexpected(found: string, expected: string, position: Position): Problem {
  return syntaxProblem(hint(found) ?? `expected ${expected}, found ${shown(found)}`, position);
}

/** A problem of the JSON text itself. */
export function syntaxProblem(
  message: string,
  position: Position,
  code: FindingCode = 'json/syntax',
): Problem {
  return { code, message, position };
}

/** A character or word as a message shows it: quoted, or by its code point when it has no shape. */
export function shown(found: string): string {
  const [first = ''] = found;
  const invisible = /[\p{C}\p{Z}]/u.test(first);
  if (!invisible) return found.includes('"') ? `'${found}'` : `"${found}"`;
  return `U+${(first.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
}

/** What to say of a comment. */
export const NO_COMMENTS = 'JSON has no comments; remove it';

/** Whether a character outside of strings begins what other languages have as a comment. */
export function beginsComment(character: string): boolean {
  return character === '/' || character === '#';
}

function hint(found: string): string | null {
  if (beginsComment(found)) return NO_COMMENTS;
  if (found === "'") return "JSON strings stand in double quotes, not in single quotes (')";
  if (found === '`') return 'JSON strings stand in double quotes, not in backticks (`)';
  if (/[“”„‘’«»]/u.test(found)) {
    return `JSON strings stand in straight double quotes ("), not in typographic ones (${found})`;
  }
  return null;
}

const WORD_HINTS = new Map([
  ['NaN', 'JSON has no NaN; write null or leave the property out'],
  ['Infinity', 'JSON has no Infinity; numbers are finite'],
  ['-Infinity', 'JSON has no Infinity; numbers are finite'],
  ['undefined', 'JSON has no undefined; write null or leave the property out'],
  ['None', 'JSON has no None; write null'],
  ['True', 'JSON has no True; write true'],
  ['False', 'JSON has no False; write false'],
]);

/** The problem of a word that is neither a number nor `true`, `false` or `null`. */
export function badWord(word: string, position: Position): Problem {
  return syntaxProblem(
    WORD_HINTS.get(word) ?? numberHint(shorten(word)) ?? noValue(word),
    position,
  );
}

function numberHint(word: string): string | null {
  if (/^-?0\d+/.test(word)) return `the number ${word} begins with 0; write it without`;
  if (/^\+[\d.]/.test(word)) return `the number ${word} begins with +; write it without`;
  if (/^-?\./.test(word)) return `the number ${word} needs a digit before its point`;
  if (/^-?0x/i.test(word)) return `${word} is hexadecimal; JSON numbers are decimal`;
  if (/^-?\d+\.(\D|$)/.test(word)) return `the number ${word} needs a digit after its point`;
  return null;
}

function noValue(word: string): string {
  return `${shown(word.slice(0, 40))} is not a JSON value; strings stand in double quotes`;
}
