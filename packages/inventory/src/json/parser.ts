import type { FindingCode, Position, Problem } from '../finding.ts';
import { quoteText } from '../text.ts';
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

/** Position with its offset in the text, in UTF-16 code units. */
export type OffsetPosition = Position & { offset: number };

/** Keys and indices of a path as a linked list, last key first. Null for the root. */
export type JsonPath = { parent: JsonPath; key: string | number } | null;

/** Repeated key of an object, with its first and current position. */
export type DuplicateKey = {
  key: string;
  path: JsonPath;
  first: OffsetPosition;
  again: OffsetPosition;
};

/** Positions of the parts of one value. */
export type LocatedValue = {
  start: OffsetPosition;
  /** Members of the root object: the first position of each key, and the last value of repeated keys. */
  members: Map<string, { key: OffsetPosition; start: OffsetPosition; end: number }>;
  /** Repeated keys in the order of the text. */
  duplicates: DuplicateKey[];
};

/** Context of a text within its file. */
export type TextContext = {
  start: Position;
  /** Whether the text is a file or a line, for messages. */
  unit: 'file' | 'line';
  enclosing: readonly OpenDelimiter[];
  /** Whether the text was cut and may end in an incomplete word. */
  isTruncated: boolean;
};

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

const WORD = /[\w$.+-]+/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[\da-fA-F]{4})/y;
const ESCAPE_START = /\\(?:u[\da-fA-F]{0,3})?/y;
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const NUMBER_START = /^-?((0|[1-9]\d*)(\.\d*)?|(0|[1-9]\d*)(\.\d+)?[eE][+-]?\d*)?$/;
const LITERALS = ['true', 'false', 'null'];

/** Formats a path as a JSON pointer (RFC 6901). */
export function formatPointer(path: JsonPath): string {
  if (path === null) return '';
  const key = String(path.key).replaceAll('~', '~0').replaceAll('/', '~1');
  return `${formatPointer(path.parent)}/${key}`;
}

/** Describes a repeated key for a message. */
export function describeDuplicateKey({ key, first }: DuplicateKey): string {
  return `the key ${quoteText(key)} is already in this object, at ${first.line}:${first.column}`;
}

/**
 * Parses one JSON value (RFC 8259) and returns the positions of its members and repeated keys. The parser is slower
 * than `JSON.parse` and recursive, so only invalid records and small files use it.
 * @throws JsonSyntaxError for exactly the texts that `JSON.parse` rejects.
 */
export function parseWithPositions(text: string, context: TextContext): LocatedValue {
  return new LocatedParser(text, context).parse();
}

class LocatedParser {
  readonly #text: string;
  readonly #context: TextContext;
  readonly #open: OpenDelimiter[] = [];
  readonly #members: LocatedValue['members'] = new Map();
  readonly #duplicates: DuplicateKey[] = [];
  #index = 0;
  #line: number;
  // Offset of column 1, adjusted for surrogate pairs so that columns count code points.
  #lineStart: number;

  constructor(text: string, context: TextContext) {
    this.#text = text;
    this.#context = context;
    this.#line = context.start.line;
    this.#lineStart = 1 - context.start.column;
  }

  parse(): LocatedValue {
    this.#space();
    const start = this.#mark();
    this.#value(null);
    this.#space();
    if (this.#index < this.#text.length) this.#failAfterEnd();
    return { start, members: this.#members, duplicates: this.#duplicates };
  }

  #failAfterEnd(): never {
    const next = this.#peek();
    const isLine = this.#context.unit === 'line';
    if (isCommentStart(next)) this.#fail(NO_COMMENTS_MESSAGE);
    if (isLine && next === ',') {
      this.#fail('there is a comma after the record, which ends with its line; remove it');
    }
    const message = isLine
      ? 'a line contains one record, but more follows on this one'
      : 'the value has ended, but more follows; remove it';
    this.#fail(message, 'json/trailing-data');
  }

  #value(path: JsonPath): void {
    const next = this.#peek();
    if (next === '{') this.#object(path);
    else if (next === '[') this.#array(path);
    else if (next === '"') this.#string();
    else this.#word();
  }

  #object(path: JsonPath): void {
    // Created lazily: a hostile record may have many empty objects, and a map takes more memory than an empty object.
    let firsts: Map<string, OffsetPosition> | undefined;
    this.#container('object', '}', () => {
      const again = this.#mark();
      const key = this.#key();
      const first = path === null ? this.#members.get(key)?.key : firsts?.get(key);
      const own: JsonPath = { parent: path, key };
      if (first !== undefined) this.#duplicates.push({ key, path: own, first, again });
      else if (path !== null) (firsts ??= new Map()).set(key, again);
      this.#space();
      if (this.#peek() !== ':') this.#failExpected('":" after the key');
      this.#index += 1;
      this.#space();
      const start = this.#mark();
      this.#value(own);
      if (path === null) this.#members.set(key, { key: first ?? again, start, end: this.#index });
    });
  }

  #array(path: JsonPath): void {
    let index = 0;
    this.#container('array', ']', () => {
      this.#value({ parent: path, key: index });
      index += 1;
    });
  }

  /** Reads brackets with comma-separated items between them. */
  #container(kind: 'object' | 'array', close: '}' | ']', readItem: () => void): void {
    this.#open.push({ kind, position: this.#position() });
    this.#index += 1;
    this.#space();
    for (let isFirst = true; this.#peek() !== close; isFirst = false) {
      if (!isFirst) {
        if (this.#peek() !== ',') this.#failExpected(`"," or "${close}"`);
        this.#index += 1;
        this.#space();
        if (this.#peek() === close) {
          this.#fail(`there is a comma before this "${close}"; remove the comma`);
        }
      }
      readItem();
      this.#space();
    }
    this.#index += 1;
    this.#open.pop();
  }

  /** Reads a key and returns it without escapes. */
  #key(): string {
    if (this.#peek() === '"') {
      const from = this.#index;
      this.#string();
      const literal = this.#text.slice(from, this.#index);
      return literal.includes('\\') ? JSON.parse(literal) : literal.slice(1, -1);
    }
    const word = this.#match(WORD);
    if (word === '') this.#failExpected('a key in double quotes');
    return this.#fail(`write the key ${word.slice(0, 40)} in double quotes`);
  }

  #string(): void {
    const position = this.#position();
    this.#open.push({ kind: 'string', position });
    this.#index += 1;
    this.#plainCharacters();
    while (this.#peek() !== '"') {
      const unit = this.#text.charCodeAt(this.#index);
      if (unit < FIRST_PRINTABLE) this.#fail(describeControlCharacter(unit, position));
      this.#escape();
      this.#plainCharacters();
    }
    this.#index += 1;
    this.#open.pop();
  }

  #plainCharacters(): void {
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

  #escape(): void {
    const escape = this.#match(ESCAPE);
    if (escape === '') {
      const start = this.#match(ESCAPE_START);
      if (this.#index + start.length === this.#text.length) this.#failAtEnd();
      const [character = ''] = this.#text.slice(this.#index + 1);
      this.#fail(
        character === 'u'
          ? 'the escape \\u needs four hexadecimal digits'
          : `\\ before ${formatCharacter(character)} is not a JSON escape; write a backslash as \\\\`,
      );
    }
    this.#index += escape.length;
  }

  /** Reads a number or one of the three literals. */
  #word(): void {
    const word = this.#match(WORD);
    if (word === '') this.#failExpected('a value');
    const isTruncated =
      this.#context.isTruncated && this.#index + word.length === this.#text.length;
    const isStart = NUMBER_START.test(word) || LITERALS.some((literal) => literal.startsWith(word));
    if (isTruncated && isStart) this.#failAtEnd();
    if (!NUMBER.test(word) && !LITERALS.includes(word)) {
      throw new JsonSyntaxError(createBadWordProblem(word, this.#position()), this.#index);
    }
    this.#index += word.length;
  }

  #space(): void {
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
    return this.#text[this.#index] ?? this.#failAtEnd();
  }

  /** Returns the match of a sticky expression at the current offset, or an empty string. */
  #match(expression: RegExp): string {
    expression.lastIndex = this.#index;
    return expression.exec(this.#text)?.[0] ?? '';
  }

  #position(offset = this.#index): Position {
    return { line: this.#line, column: offset - this.#lineStart + 1 };
  }

  #mark(): OffsetPosition {
    return { ...this.#position(), offset: this.#index };
  }

  #failExpected(expected: string): never {
    const character = String.fromCodePoint(this.#text.codePointAt(this.#index) ?? 0);
    const problem = createUnexpectedProblem(character, expected, this.#position());
    throw new JsonSyntaxError(problem, this.#index);
  }

  #fail(message: string, code: FindingCode = 'json/syntax'): never {
    throw new JsonSyntaxError({ code, message, position: this.#position() }, this.#index);
  }

  #failAtEnd(): never {
    const end = this.#text.length;
    const open = [...this.#context.enclosing, ...this.#open];
    const problem = createTruncationProblem(this.#context.unit, this.#position(end), open);
    throw new JsonSyntaxError(problem, end);
  }
}

function describeControlCharacter(unit: number, { line, column }: Position): string {
  return unit === 0x0a || unit === 0x0d
    ? `the string opened at ${line}:${column} is not closed on its line`
    : `the string contains the control character ${formatCharacter(String.fromCharCode(unit))}; write it as an escape`;
}

/** Thrown for invalid JSON and repeated keys. The message contains the position. */
export class JsonTextError extends Error {
  override name = 'JsonTextError';
  readonly isTooDeep: boolean;

  constructor(message: string, cause?: unknown) {
    super(message, { cause });
    this.isTooDeep = cause instanceof RangeError;
  }
}

/**
 * Parses a JSON text, such as a configuration, and rejects repeated keys.
 * @throws JsonTextError with a message that begins with LINE:COLUMN.
 */
export function parseJsonText(text: string): unknown {
  if (text.trim() === '') throw new JsonTextError('1:1: the file is empty');
  const context = {
    start: { line: 1, column: 1 },
    unit: 'file',
    enclosing: [],
    isTruncated: false,
  } as const;
  try {
    const [repeated] = parseWithPositions(text, context).duplicates;
    if (repeated === undefined) return JSON.parse(text);
    const { line, column } = repeated.again;
    throw new JsonTextError(`${line}:${column}: ${describeDuplicateKey(repeated)}`);
  } catch (error) {
    // The parser is recursive, so a deeply nested text overflows the stack.
    if (error instanceof RangeError) {
      throw new JsonTextError('1:1: it is nested too deep; flatten it', error);
    }
    if (!(error instanceof JsonSyntaxError)) throw error;
    const { position, message } = error.problem;
    throw new JsonTextError(`${position.line}:${position.column}: ${message}`, error);
  }
}
