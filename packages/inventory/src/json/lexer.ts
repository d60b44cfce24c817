import type { FindingCode, Position } from '../finding.ts';
import { BACKSLASH, FIRST_PRINTABLE, QUOTE } from './byte-class.ts';
import type { Mark } from './located-value.ts';
import {
  badWord,
  JsonSyntaxError,
  shown,
  syntaxProblem,
  truncated,
  unexpected,
} from './syntax-error.ts';
import type { Opened } from './syntax-error.ts';

/** Where a text comes from. */
export type TextContext = {
  /** Where the text begins in its file. */
  start: Position;
  /** What the text is the end of, for messages about text that ends too early. */
  what: 'file' | 'line';
  /** What is open around the text. */
  enclosing: readonly Opened[];
  /** Whether the text was cut, so that a word at its end may be a part of one. */
  isCut: boolean;
};

const WORD = /[\w$.+-]+/y;
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const BEGINNING_OF_NUMBER = /^-?((0|[1-9]\d*)(\.\d*)?|(0|[1-9]\d*)(\.\d+)?[eE][+-]?\d*)?$/;
const LITERALS = ['true', 'false', 'null'];

/**
 * Reads the words and strings of a JSON text (RFC 8259) one after the other, and knows where it stands.
 * Every method that passes something throws JsonSyntaxError where JSON has something else.
 */
export class Lexer {
  readonly #text: string;
  readonly #context: TextContext;
  readonly #open: Opened[] = [];
  #index = 0;
  #line: number;
  // The offset at which column 1 of the line would stand, if each code unit were a character.
  #lineStart: number;

  constructor(text: string, context: TextContext) {
    this.#text = text;
    this.#context = context;
    this.#line = context.start.line;
    this.#lineStart = 1 - context.start.column;
  }

  /** The offset of the next UTF-16 code unit. */
  get offset(): number {
    return this.#index;
  }

  get isAtEnd(): boolean {
    return this.#index >= this.#text.length;
  }

  /** The next UTF-16 code unit. Throws when the text has ended. */
  peek(): string {
    const next = this.#text[this.#index];
    if (next === undefined) throw this.#endOfText();
    return next;
  }

  /** Passes the code unit that `peek` gave: a colon or a comma. */
  passUnit(): void {
    this.#index += 1;
  }

  /** Passes an opening bracket, which is told as open until `passClosing`. */
  passOpening(kind: 'object' | 'array'): void {
    this.#open.push({ kind, position: this.#position() });
    this.#index += 1;
  }

  /** Passes the bracket that closes the last one that was opened. */
  passClosing(): void {
    this.#index += 1;
    this.#open.pop();
  }

  passSpace(): void {
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

  /** Passes the key of a member, and gives it without its escapes. */
  passKey(): string {
    if (this.peek() === '"') {
      const from = this.#index;
      this.passString();
      const written = this.#text.slice(from, this.#index);
      return written.includes('\\') ? JSON.parse(written) : written.slice(1, -1);
    }
    const word = this.#match(WORD);
    if (word === '') this.fail('a key in double quotes');
    throw this.error(`the key ${word.slice(0, 40)} must stand in double quotes`);
  }

  /** Passes a string. */
  passString(): void {
    const position = this.#position();
    this.#open.push({ kind: 'string', position });
    this.#index += 1;
    this.#plainCharacters();
    while (this.peek() !== '"') {
      const unit = this.#text.charCodeAt(this.#index);
      if (unit < FIRST_PRINTABLE) throw this.error(controlMessage(unit, position));
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
    throw this.error(
      character === 'u'
        ? 'the escape \\u needs four hexadecimal digits'
        : `\\ before ${shown(character)} is no JSON escape; a backslash itself is written \\\\`,
    );
  }

  /** Passes a number or one of the three literals. */
  passWord(): void {
    const word = this.#match(WORD);
    if (word === '') this.fail('a value');
    if (this.#isCutAfter(word) && isBeginning(word)) throw this.#endOfText();
    if (!NUMBER.test(word) && !LITERALS.includes(word)) {
      throw new JsonSyntaxError(badWord(word, this.#position()), this.#index);
    }
    this.#index += word.length;
  }

  /** Where the next code unit stands. */
  mark(): Mark {
    const offset = this.#index;
    return { line: this.#line, column: offset - this.#lineStart + 1, offset };
  }

  /** @throws JsonSyntaxError about the next character, where something else is expected. */
  fail(expected: string): never {
    const character = String.fromCodePoint(this.#text.codePointAt(this.#index) ?? 0);
    throw new JsonSyntaxError(unexpected(character, expected, this.#position()), this.#index);
  }

  /** What is wrong at this place. */
  error(message: string, code?: FindingCode): JsonSyntaxError {
    return new JsonSyntaxError(syntaxProblem(message, this.#position(), code), this.#index);
  }

  #endOfText(): JsonSyntaxError {
    const end = this.#text.length;
    const open = [...this.#context.enclosing, ...this.#open];
    return new JsonSyntaxError(truncated(this.#context.what, this.#position(end), open), end);
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
