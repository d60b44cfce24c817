import type { Position } from '../finding.ts';
import type { Mark } from '../json/located-value.ts';

/** Knows the line and column of each offset of a text. Offsets that are asked for in their order cost least. */
export class TextPlaces {
  readonly #text: string;
  #last: Mark = { offset: 0, line: 1, column: 1 };

  constructor(text: string) {
    this.#text = text;
  }

  /** The position of a UTF-16 code unit. */
  at(offset: number): Position {
    const { line, column } = this.mark(offset);
    return { line, column };
  }

  /** The same, with the offset. */
  mark(offset: number): Mark {
    let { offset: from, line, column } = this.#last;
    if (offset < from) [from, line, column] = [0, 1, 1];
    for (let end = this.#text.indexOf('\n', from); end !== -1 && end < offset;) {
      [from, line, column] = [end + 1, line + 1, 1];
      end = this.#text.indexOf('\n', from);
    }
    for (let index = from; index < offset; index += 1) {
      // A character beyond the first 65,536 has two code units, and is one column.
      const unit = this.#text.charCodeAt(index);
      if (unit < 0xdc00 || unit > 0xdfff) column += 1;
    }
    this.#last = { offset, line, column };
    return this.#last;
  }
}
