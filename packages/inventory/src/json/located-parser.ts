import { MAX_REPEATED_KEYS } from '../limits.ts';
import { Lexer, type TextContext } from './lexer.ts';
import type { DuplicateKey, LocatedValue, Mark } from './located-value.ts';
import { beginsComment, type JsonSyntaxError, NO_COMMENTS } from './syntax-error.ts';

/**
 * Parses one JSON value (RFC 8259) and says where its members stand and which keys are repeated.
 * It is slower than `JSON.parse` and is meant for values in which something is wrong. Values nest
 * at most as deep as the scanner lets through.
 *
 * Throws JsonSyntaxError for exactly the texts that `JSON.parse` refuses.
 */
export function parseLocated(text: string, context: TextContext): LocatedValue {
  return new LocatedParser(text, context).parse();
}

class LocatedParser {
  readonly #lexer: Lexer;
  readonly #what: TextContext['what'];
  readonly #members: LocatedValue['members'] = new Map();
  readonly #duplicates: DuplicateKey[] = [];
  #moreDuplicates: LocatedValue['moreDuplicates'] = null;
  readonly #path: (string | number)[] = [];

  constructor(text: string, context: TextContext) {
    this.#lexer = new Lexer(text, context);
    this.#what = context.what;
  }

  parse(): LocatedValue {
    this.#lexer.passSpace();
    const start = this.#lexer.mark();
    this.#value();
    this.#lexer.passSpace();
    if (!this.#lexer.isAtEnd) throw this.#trailing();
    return {
      start,
      members: this.#members,
      duplicates: this.#duplicates,
      moreDuplicates: this.#moreDuplicates,
    };
  }

  #trailing(): JsonSyntaxError {
    const lexer = this.#lexer;
    const next = lexer.peek();
    if (beginsComment(next)) return lexer.error(NO_COMMENTS);
    if (this.#what === 'file') {
      return lexer.error('the value has ended, but more follows; remove it', 'json/trailing-data');
    }
    return next === ','
      ? lexer.error('a comma stands behind the record, which ends with its line; remove the comma')
      : lexer.error(
          'one line holds one record, but more follows on this one',
          'json/trailing-data',
        );
  }

  #value(): void {
    const next = this.#lexer.peek();
    if (next === '{') this.#object();
    else if (next === '[') this.#array();
    else if (next === '"') this.#lexer.passString();
    else this.#lexer.passWord();
  }

  #object(): void {
    const lexer = this.#lexer;
    const isRoot = this.#path.length === 0;
    // Most objects of a hostile record are empty, and a map is larger than such an object is.
    let firsts: Map<string, Mark> | undefined;
    this.#container('object', '}', () => {
      const again = lexer.mark();
      const key = lexer.passKey();
      const first = isRoot ? this.#members.get(key)?.key : firsts?.get(key);
      this.#path.push(key);
      if (first !== undefined) this.#noteDuplicate(key, first, again);
      else if (!isRoot) (firsts ??= new Map()).set(key, again);
      lexer.passSpace();
      if (lexer.peek() !== ':') lexer.fail('":" after the key');
      lexer.passUnit();
      lexer.passSpace();
      const start = lexer.mark();
      this.#value();
      if (isRoot) this.#members.set(key, { key: first ?? again, start, end: lexer.offset });
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
    this.#lexer.passOpening(kind);
    this.#lexer.passSpace();
    if (this.#lexer.peek() !== close) {
      do {
        readItem();
      } while (this.#goesOn(close));
    }
    this.#lexer.passClosing();
  }

  /** Stands on the next item when there is one, else on the closing bracket. */
  #goesOn(close: '}' | ']'): boolean {
    const lexer = this.#lexer;
    lexer.passSpace();
    if (lexer.peek() === close) return false;
    if (lexer.peek() !== ',') lexer.fail(`"," or "${close}"`);
    lexer.passUnit();
    lexer.passSpace();
    if (lexer.peek() !== close) return true;
    throw lexer.error(`a comma stands before this "${close}"; remove the comma`);
  }
}
