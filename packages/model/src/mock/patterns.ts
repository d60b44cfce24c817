/**
 * `\b` and `\w` know only ASCII letters, so the rules mark the edges of words themselves. Sources are
 * written with `String.raw` and matched against folded text, hence without a case flag.
 */
const EDGE_LEFT = String.raw`(?<![\p{L}\p{N}])`;
const EDGE_RIGHT = String.raw`(?![\p{L}\p{N}])`;

/** A pattern for whole words: nothing that belongs to a word stands on either side. */
export function whole(source: string, flags = 'u'): RegExp {
  return new RegExp(`${EDGE_LEFT}(?:${source})${EDGE_RIGHT}`, flags);
}

/** A pattern for words that begin so, whatever their ending: for inflected languages. */
export function stem(source: string, flags = 'u'): RegExp {
  return new RegExp(`${EDGE_LEFT}(?:${source})`, flags);
}

/**
 * One of many patterns, of which a text holds few. That it holds none of the words is told without the edges: to compile
 * these, with all letters of Unicode, takes a hundred times as long as to compile the words.
 */
export class RarePattern {
  readonly #words: RegExp;
  readonly #makePattern: () => RegExp;
  #made: RegExp | undefined;

  /** @param edges `whole` or `stem`. */
  constructor(edges: (source: string, flags: string) => RegExp, source: string) {
    this.#words = new RegExp(source, 'u');
    this.#makePattern = () => edges(source, 'gu');
  }

  get #pattern(): RegExp {
    return (this.#made ??= this.#makePattern());
  }

  /** Every place where a text matches, in their order. */
  *matchesIn(text: string): Generator<RegExpExecArray> {
    if (this.#words.test(text)) yield* text.matchAll(this.#pattern);
  }

  /** Where a text matches first; -1 where it does not. */
  searchIn(text: string): number {
    return this.#words.test(text) ? text.search(this.#pattern) : -1;
  }
}

/** The number a capture holds, `null` for none; a decimal comma is understood. */
export function captured(match: RegExpMatchArray | null, group: number): number | null {
  const text = match?.[group];
  if (text === undefined) return null;
  const value = Number(text.replace(',', '.'));
  return Number.isFinite(value) ? value : null;
}
