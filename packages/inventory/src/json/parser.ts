import type { FindingCode, Position, Problem } from '../finding.ts';
import { quoteText } from '../text.ts';
import type { RawValue } from './record-run.ts';
import { BACKSLASH, FIRST_PRINTABLE, QUOTE } from './scan.ts';
import {
  createBadWordProblem,
  createTruncationProblem,
  createUnexpectedProblem,
  formatCharacter,
  isCommentStart,
  NO_COMMENTS_MESSAGE,
  type OpenDelimiter,
} from './syntax-error.ts';

/** Text position with its offset in UTF-16 code units. */
export type OffsetPosition = Position & { offset: number };

/** Path as a linked list of keys and indices, last key first. Null for the root. */
export type JsonPath = { parent: JsonPath; key: string | number } | null;

/** Repeated key of an object, with the positions of its first and its repeated occurrence. */
type DuplicateKey = {
  key: string;
  path: JsonPath;
  firstPosition: OffsetPosition;
  repeatedPosition: OffsetPosition;
};

/** Positions within one JSON value. */
export type LocatedValue = {
  start: OffsetPosition;
  /** Members of the root object: the first position of each key, and the last value of repeated keys. */
  members: Map<string, { key: OffsetPosition; start: OffsetPosition; end: number }>;
  /** Repeated keys in text order. */
  duplicates: DuplicateKey[];
};

/** Text of a value, with the open delimiters of the file around it. Truncated text may end in an incomplete word. */
type EnclosedText = Pick<RawValue, 'text' | 'start' | 'enclosingDelimiters' | 'truncation'>;

/** Thrown for invalid JSON, with the offset of the error in the text. */
export class JsonSyntaxError extends Error {
  override name = 'JsonSyntaxError';
  readonly problem: Problem;
  readonly offset: number;

  constructor(problem: Problem, offset: number) {
    super(problem.message);
    this.problem = problem;
    this.offset = offset;
  }
}

const WORD_PATTERN = /[\w$.+-]+/y;
const ESCAPE_PATTERN = /\\(?:["\\/bfnrt]|u[\da-fA-F]{4})/y;
const ESCAPE_START_PATTERN = /\\(?:u[\da-fA-F]{0,3})?/y;
const NUMBER_PATTERN = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const NUMBER_START_PATTERN = /^-?((0|[1-9]\d*)(\.\d*)?|(0|[1-9]\d*)(\.\d+)?[eE][+-]?\d*)?$/;
const LITERALS = ['true', 'false', 'null'];

/** Formats a path as a JSON pointer (RFC 6901). */
export function formatPointer(path: JsonPath): string {
  if (path === null) return '';
  const key = String(path.key).replaceAll('~', '~0').replaceAll('/', '~1');
  return `${formatPointer(path.parent)}/${key}`;
}

/** Describes a repeated key for a message. */
export function describeDuplicateKey({ key, firstPosition }: DuplicateKey): string {
  return `the key ${quoteText(key)} is already in this object, at ${firstPosition.line}:${firstPosition.column}`;
}

/**
 * Parses one JSON value (RFC 8259) and returns the positions of its members and repeated keys. The parser is slower
 * than `JSON.parse` and recursive, so only records with problems and small files use it.
 * @throws JsonSyntaxError for exactly the texts that `JSON.parse` rejects, and for a number or literal that may be
 *   truncated; RangeError if the nesting overflows the stack.
 */
export function parseWithPositions(source: EnclosedText, unit: 'file' | 'line'): LocatedValue {
  return new LocatedParser(source, unit).parse();
}

class LocatedParser {
  readonly #text: string;
  readonly #isTruncated: boolean;
  readonly #unit: 'file' | 'line';
  readonly #openDelimiters: OpenDelimiter[];
  readonly #members: LocatedValue['members'] = new Map();
  readonly #duplicates: DuplicateKey[] = [];
  #index = 0;
  #line: number;
  // Offset of column 1, adjusted for surrogate pairs so that columns count code points.
  #lineStart: number;

  constructor(
    { text, start, enclosingDelimiters, truncation }: EnclosedText,
    unit: 'file' | 'line',
  ) {
    this.#text = text;
    this.#isTruncated = truncation !== null;
    this.#unit = unit;
    this.#openDelimiters = [...enclosingDelimiters];
    this.#line = start.line;
    this.#lineStart = 1 - start.column;
  }

  parse(): LocatedValue {
    this.#skipSpace();
    const start = this.#getOffsetPosition();
    this.#readValue(null);
    this.#skipSpace();
    if (this.#index < this.#text.length) this.#throwAfterEnd();
    return { start, members: this.#members, duplicates: this.#duplicates };
  }

  #throwAfterEnd(): never {
    const character = this.#peek();
    const isLine = this.#unit === 'line';
    if (isCommentStart(character)) this.#throwError(NO_COMMENTS_MESSAGE);
    if (isLine && character === ',') {
      this.#throwError('there is a comma after the record, which ends with its line; remove it');
    }
    const message = isLine
      ? 'a line contains one record, but more follows on this one'
      : 'the value has ended, but more follows; remove it';
    this.#throwError(message, 'json/trailing-data');
  }

  #readValue(path: JsonPath): void {
    const character = this.#peek();
    if (character === '{') this.#readObject(path);
    else if (character === '[') this.#readArray(path);
    else if (character === '"') this.#readString();
    else this.#readWord();
  }

  #readObject(path: JsonPath): void {
    // Created on demand: a hostile record may have many empty objects, and each map takes memory.
    let firstPositions: Map<string, OffsetPosition> | undefined;
    this.#readContainer('object', '}', () => {
      const position = this.#getOffsetPosition();
      const key = this.#readKey();
      const firstPosition = path === null ? this.#members.get(key)?.key : firstPositions?.get(key);
      const keyPath: JsonPath = { parent: path, key };
      if (firstPosition !== undefined)
        this.#duplicates.push({ key, path: keyPath, firstPosition, repeatedPosition: position });
      else if (path !== null) (firstPositions ??= new Map()).set(key, position);
      this.#skipSpace();
      if (this.#peek() !== ':') this.#throwExpected('":" after the key');
      this.#index += 1;
      this.#skipSpace();
      const valueStart = this.#getOffsetPosition();
      this.#readValue(keyPath);
      if (path === null)
        this.#members.set(key, {
          key: firstPosition ?? position,
          start: valueStart,
          end: this.#index,
        });
    });
  }

  #readArray(path: JsonPath): void {
    let elementIndex = 0;
    this.#readContainer('array', ']', () => {
      this.#readValue({ parent: path, key: elementIndex });
      elementIndex += 1;
    });
  }

  /** Reads brackets with comma-separated elements between them. */
  #readContainer(kind: 'object' | 'array', close: '}' | ']', readElement: () => void): void {
    this.#openDelimiters.push({ kind, position: this.#getPosition() });
    this.#index += 1;
    this.#skipSpace();
    for (let isFirst = true; this.#peek() !== close; isFirst = false) {
      if (!isFirst) {
        if (this.#peek() !== ',') this.#throwExpected(`"," or "${close}"`);
        this.#index += 1;
        this.#skipSpace();
        if (this.#peek() === close) {
          this.#throwError(`there is a comma before this "${close}"; remove the comma`);
        }
      }
      readElement();
      this.#skipSpace();
    }
    this.#index += 1;
    this.#openDelimiters.pop();
  }

  /** Reads a key and returns it without escapes. */
  #readKey(): string {
    if (this.#peek() === '"') {
      const keyStart = this.#index;
      this.#readString();
      const literal = this.#text.slice(keyStart, this.#index);
      return literal.includes('\\') ? JSON.parse(literal) : literal.slice(1, -1);
    }
    const word = this.#match(WORD_PATTERN);
    if (word === '') this.#throwExpected('a key in double quotes');
    return this.#throwError(`write the key ${word.slice(0, 40)} in double quotes`);
  }

  #readString(): void {
    const position = this.#getPosition();
    this.#openDelimiters.push({ kind: 'string', position });
    this.#index += 1;
    this.#skipPlainCharacters();
    while (this.#peek() !== '"') {
      const unit = this.#text.charCodeAt(this.#index);
      if (unit < FIRST_PRINTABLE) this.#throwError(describeControlCharacter(unit, position));
      this.#readEscape();
      this.#skipPlainCharacters();
    }
    this.#index += 1;
    this.#openDelimiters.pop();
  }

  #skipPlainCharacters(): void {
    const text = this.#text;
    let index = this.#index;
    for (; index < text.length; index += 1) {
      const unit = text.charCodeAt(index);
      if (unit === QUOTE || unit === BACKSLASH || unit < FIRST_PRINTABLE) break;
      // A low surrogate belongs to the previous column. Decoded UTF-8 contains only complete pairs.
      if (unit >= 0xdc00 && unit <= 0xdfff) this.#lineStart += 1;
    }
    this.#index = index;
  }

  #readEscape(): void {
    const escapeSequence = this.#match(ESCAPE_PATTERN);
    if (escapeSequence === '') {
      const incompleteEscape = this.#match(ESCAPE_START_PATTERN);
      if (this.#index + incompleteEscape.length === this.#text.length) this.#throwAtEnd();
      const [character = ''] = this.#text.slice(this.#index + 1);
      this.#throwError(
        character === 'u'
          ? 'the escape \\u needs four hexadecimal digits'
          : `\\ before ${formatCharacter(character)} is not a JSON escape; write a backslash as \\\\`,
      );
    }
    this.#index += escapeSequence.length;
  }

  /** Reads a number or one of the three literals. */
  #readWord(): void {
    const word = this.#match(WORD_PATTERN);
    if (word === '') this.#throwExpected('a value');
    const isAtEnd = this.#index + word.length === this.#text.length;
    const isIncompleteLiteral =
      NUMBER_START_PATTERN.test(word) || LITERALS.some((literal) => literal.startsWith(word));
    if (this.#isTruncated && isAtEnd && isIncompleteLiteral) this.#throwAtEnd();
    if (!NUMBER_PATTERN.test(word) && !LITERALS.includes(word)) {
      throw new JsonSyntaxError(createBadWordProblem(word, this.#getPosition()), this.#index);
    }
    this.#index += word.length;
  }

  #skipSpace(): void {
    for (;;) {
      const character = this.#text[this.#index];
      if (character !== ' ' && character !== '\n' && character !== '\t' && character !== '\r') {
        return;
      }
      this.#index += 1;
      if (character === '\n') {
        this.#line += 1;
        this.#lineStart = this.#index;
      }
    }
  }

  /** Returns the next UTF-16 code unit; throws at the end of the text. */
  #peek(): string {
    return this.#text[this.#index] ?? this.#throwAtEnd();
  }

  /** Returns the match of a sticky expression at the current offset, or an empty string. */
  #match(expression: RegExp): string {
    expression.lastIndex = this.#index;
    return expression.exec(this.#text)?.[0] ?? '';
  }

  #getPosition(offset = this.#index): Position {
    return { line: this.#line, column: offset - this.#lineStart + 1 };
  }

  #getOffsetPosition(): OffsetPosition {
    return { ...this.#getPosition(), offset: this.#index };
  }

  #throwExpected(expected: string): never {
    const character = String.fromCodePoint(this.#text.codePointAt(this.#index) ?? 0);
    const problem = createUnexpectedProblem(character, expected, this.#getPosition());
    throw new JsonSyntaxError(problem, this.#index);
  }

  #throwError(message: string, code: FindingCode = 'json/syntax'): never {
    throw new JsonSyntaxError({ code, message, position: this.#getPosition() }, this.#index);
  }

  #throwAtEnd(): never {
    const end = this.#text.length;
    const position = this.#getPosition(end);
    const problem = createTruncationProblem(this.#unit, position, this.#openDelimiters);
    throw new JsonSyntaxError(problem, end);
  }
}

function describeControlCharacter(unit: number, { line, column }: Position): string {
  return unit === 0x0a || unit === 0x0d
    ? `the string opened at ${line}:${column} is not closed on its line`
    : `the string contains the control character ${formatCharacter(String.fromCharCode(unit))}; write it as an escape`;
}

/** Thrown for invalid JSON, repeated keys and text that is nested too deep. The message begins with LINE:COLUMN. */
export class JsonTextError extends Error {
  override name = 'JsonTextError';
  readonly isTooDeep: boolean;

  constructor(message: string, cause?: unknown) {
    super(message, { cause });
    this.isTooDeep = cause instanceof RangeError;
  }
}

/**
 * Parses JSON text, such as a configuration, and rejects repeated keys.
 * @throws JsonTextError with a message that begins with LINE:COLUMN.
 */
export function parseJsonText(text: string): unknown {
  if (text.trim() === '') throw new JsonTextError('1:1: the file is empty');
  const start = { line: 1, column: 1 };
  const source = { text, start, enclosingDelimiters: [], truncation: null };
  try {
    const [duplicateKey] = parseWithPositions(source, 'file').duplicates;
    if (duplicateKey === undefined) return JSON.parse(text);
    const { line, column } = duplicateKey.repeatedPosition;
    throw new JsonTextError(`${line}:${column}: ${describeDuplicateKey(duplicateKey)}`);
  } catch (error) {
    // The parser is recursive, so deeply nested text overflows the stack.
    if (error instanceof RangeError) {
      throw new JsonTextError('1:1: it is nested too deep; flatten it', error);
    }
    if (!(error instanceof JsonSyntaxError)) throw error;
    const { position, message } = error.problem;
    throw new JsonTextError(`${position.line}:${position.column}: ${message}`, error);
  }
}
