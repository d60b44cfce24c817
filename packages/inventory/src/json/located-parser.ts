import type { Position } from '../finding.ts';
import { MAX_REPEATED_KEYS } from '../limits.ts';
import { BACKSLASH, FIRST_PRINTABLE, QUOTE } from './byte-class.ts';
import {
  badWord,
  JsonSyntaxError,
  shown,
  syntaxProblem,
  truncated,
  unexpected,
} from './syntax-error.ts';
import type { Opened } from './syntax-error.ts';

/** A position that also says which UTF-16 code unit of the parsed text it is. */
export type Mark = {
  offset: number;
} & Position;

/** The position of a mark by itself. */
export function placeOf({ line, column }: Mark): Position {
  return { line, column };
}

/** A key that its object already had. */
export type DuplicateKey = {
  key: string;
  /** The keys and indices that lead to the member. They are not joined here, as they may be long. */
  path: (string | number)[];
  first: Mark;
  again: Mark;
};

/** Where the parts of one value stand. */
export type LocatedValue = {
  start: Mark;
  /**
   * The members of the value itself, when it is an object: where the key stands first, and where the value, of equal
   * keys that of the last one.
   */
  members: Map<string, { key: Mark; start: Mark; end: number }>;
  /** In the order of the text, and no more than {@link MAX_REPEATED_KEYS}. */
  duplicates: DuplicateKey[];
  /** How many more keys are repeated, and where the first of those stands; null when all are in the list. */
  moreDuplicates: { count: number; first: Mark } | null;
};

export type ParseContext = {
  /** Where the text begins in its file. */
  start: Position;
  /** What the text is the end of, for messages about text that ends too early. */
  what: 'file' | 'line';
  /** What is open around the text. */
  enclosing: readonly Opened[];
  /** Whether the text was cut, so that a word at its end may be a part of one. */
  isCut: boolean;
};

/**
 * Parses one JSON value (RFC 8259) and says where its members stand and which keys are repeated.
 * It is slower than `JSON.parse` and is meant for values in which something is wrong. Values nest
 * at most as deep as the scanner lets through.
 *
 * Throws JsonSyntaxError for exactly the texts that `JSON.parse` refuses.
 */
export function parseLocated(text: string, context: ParseContext): LocatedValue {
  return new LocatedParser(text, context).parse();
}

const WORD = /[\w$.+-]+/y;
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const BEGINNING_OF_NUMBER = /^-?((0|[1-9]\d*)(\.\d*)?|(0|[1-9]\d*)(\.\d+)?[eE][+-]?\d*)?$/;
const LITERALS = ['true', 'false', 'null'];

class LocatedParser {
  readonly #text: string;
  readonly #context: ParseContext;
  readonly #members: LocatedValue['members'] = new Map();
  readonly #duplicates: DuplicateKey[] = [];
  #moreDuplicates: LocatedValue['moreDuplicates'] = null;
  readonly #open: Opened[] = [];
  readonly #path: (string | number)[] = [];
  #index = 0;
  #line: number;
  // The offset at which column 1 of the line would stand, if each code unit were a character.
  #lineStart: number;

  constructor(text: string, context: ParseContext) {
    this.#text = text;
    this.#context = context;
    this.#line = context.start.line;
    this.#lineStart = 1 - context.start.column;
  }

  parse(): LocatedValue {
    this.#skipSpace();
    const start = this.#mark();
    this.#value();
    this.#skipSpace();
    if (this.#index < this.#text.length) {
      const message =
        this.#context.what === 'line'
          ? 'one line holds one record, but more follows on this one'
          : 'the value has ended, but more follows; remove it';
      const problem = syntaxProblem(message, this.#position(), 'json/trailing-data');
      throw new JsonSyntaxError(problem, this.#index);
    }
    return {
      start,
      members: this.#members,
      duplicates: this.#duplicates,
      moreDuplicates: this.#moreDuplicates,
    };
  }

  #value(): void {
    const next = this.#peek();
    if (next === '{') this.#object();
    else if (next === '[') this.#array();
    else if (next === '"') this.#string();
    else this.#word();
  }

  #object(): void {
    const isRoot = this.#path.length === 0;
    // Most objects of a hostile record are empty, and a map is larger than such an object is.
    let firsts: Map<string, Mark> | undefined;
    this.#container('object', '}', () => {
      const again = this.#mark();
      const key = this.#key();
      const first = isRoot ? this.#members.get(key)?.key : firsts?.get(key);
      this.#path.push(key);
      if (first !== undefined) this.#noteDuplicate(key, first, again);
      else if (!isRoot) (firsts ??= new Map()).set(key, again);
      this.#skipSpace();
      if (this.#peek() !== ':') this.#fail('":" after the key');
      this.#index += 1;
      this.#skipSpace();
      const start = this.#mark();
      this.#value();
      if (isRoot) this.#members.set(key, { key: first ?? again, start, end: this.#index });
      this.#path.pop();
    });
  }

  #noteDuplicate(key: string, first: Mark, again: Mark): void {
    if (this.#duplicates.length < MAX_REPEATED_KEYS) {
      this.#duplicates.push({ key, path: [...this.#path], first, again });
      return;
    }
    this.#moreDuplicates ??= { count: 0, first: again };
    this.#moreDuplicates.count += 1;
  }

  #array(): void {
    let index = 0;
    this.#container('array', ']', () => {
      this.#path.push(index);
      this.#value();
      this.#path.pop();
      index += 1;
    });
  }

  /** Reads a bracket, items with commas between them, and the closing bracket. */
  #container(kind: 'object' | 'array', close: '}' | ']', readItem: () => void): void {
    this.#open.push({ kind, position: this.#position() });
    this.#index += 1;
    this.#skipSpace();
    if (this.#peek() !== close) {
      do {
        readItem();
      } while (this.#goesOn(close));
    }
    this.#index += 1;
    this.#open.pop();
  }

  /** Stands on the next item when there is one, else on the closing bracket. */
  #goesOn(close: '}' | ']'): boolean {
    this.#skipSpace();
    if (this.#peek() === close) return false;
    if (this.#peek() !== ',') this.#fail(`"," or "${close}"`);
    this.#index += 1;
    this.#skipSpace();
    if (this.#peek() !== close) return true;
    throw this.#error(`a comma stands before this "${close}"; remove the comma`);
  }

  #key(): string {
    if (this.#peek() === '"') {
      const from = this.#index;
      this.#string();
      const written = this.#text.slice(from, this.#index);
      return written.includes('\\') ? JSON.parse(written) : written.slice(1, -1);
    }
    const word = this.#match(WORD);
    if (word === '') this.#fail('a key in double quotes');
    if (this.#isCutAfter(word)) throw this.#endOfText();
    throw this.#error(`the key ${word.slice(0, 40)} must stand in double quotes`);
  }

  #string(): void {
    const position = this.#position();
    this.#open.push({ kind: 'string', position });
    this.#index += 1;
    this.#plainCharacters();
    while (this.#peek() !== '"') {
      const unit = this.#text.charCodeAt(this.#index);
      if (unit < FIRST_PRINTABLE) throw this.#error(controlMessage(unit, position));
      this.#escape();
      this.#plainCharacters();
    }
    this.#index += 1;
    this.#open.pop();
  }

  /** Passes characters of a string that stand for themselves; nearly all of a text is such. */
  #plainCharacters(): void {
    const text = this.#text;
    let index = this.#index;
    for (; index < text.length; index += 1) {
      const unit = text.charCodeAt(index);
      if (unit === QUOTE || unit === BACKSLASH || unit < FIRST_PRINTABLE) break;
      // Text from UTF-8 has whole pairs only, so this is the second unit of one character.
      if (unit >= 0xdc00 && unit <= 0xdfff) this.#lineStart += 1;
    }
    this.#index = index;
  }

  #escape(): void {
    const escape = this.#match(/\\(?:["\\/bfnrt]|u[\da-fA-F]{4})/y);
    if (escape !== '') {
      this.#index += escape.length;
      return;
    }
    const begun = this.#match(/\\(?:u[\da-fA-F]{0,3})?/y);
    if (this.#index + begun.length === this.#text.length) throw this.#endOfText();
    const [character = ''] = this.#text.slice(this.#index + 1);
    throw this.#error(
      character === 'u'
        ? 'the escape \\u needs four hexadecimal digits'
        : `\\ before ${shown(character)} is no JSON escape; a backslash itself is written \\\\`,
    );
  }

  #word(): void {
    const word = this.#match(WORD);
    if (word === '') this.#fail('a value');
    if (this.#isCutAfter(word) && isBeginning(word)) throw this.#endOfText();
    if (!NUMBER.test(word) && !LITERALS.includes(word)) {
      throw new JsonSyntaxError(badWord(word, this.#position()), this.#index);
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

  /** The next UTF-16 code unit. Throws when the text has ended. */
  #peek(): string {
    const next = this.#text[this.#index];
    if (next === undefined) throw this.#endOfText();
    return next;
  }

  /** What a sticky expression matches at this place, or an empty string. */
  #match(expression: RegExp): string {
    expression.lastIndex = this.#index;
    return expression.exec(this.#text)?.[0] ?? '';
  }

  #isCutAfter(word: string): boolean {
    return this.#context.isCut && this.#index + word.length === this.#text.length;
  }

  #position(offset = this.#index): Position {
    return { line: this.#line, column: offset - this.#lineStart + 1 };
  }

  #mark(): Mark {
    return { ...this.#position(), offset: this.#index };
  }

  #fail(expected: string): never {
    const character = String.fromCodePoint(this.#text.codePointAt(this.#index) ?? 0);
    throw new JsonSyntaxError(unexpected(character, expected, this.#position()), this.#index);
  }

  #error(message: string): JsonSyntaxError {
    return new JsonSyntaxError(syntaxProblem(message, this.#position()), this.#index);
  }

  #endOfText(): JsonSyntaxError {
    const end = this.#text.length;
    const open = [...this.#context.enclosing, ...this.#open];
    return new JsonSyntaxError(truncated(this.#context.what, this.#position(end), open), end);
  }
}

/** Whether a number or literal can begin with this. */
function isBeginning(word: string): boolean {
  return BEGINNING_OF_NUMBER.test(word) || LITERALS.some((literal) => literal.startsWith(word));
}

function controlMessage(unit: number, { line, column }: Position): string {
  const name = shown(String.fromCharCode(unit));
  if (unit === 0x0a || unit === 0x0d) {
    return `the string opened at ${line}:${column} is not closed on its line`;
  }
  return `the control character ${name} stands in a string; write it as an escape`;
}
