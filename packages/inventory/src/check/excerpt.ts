import type { Excerpt } from '../finding.ts';

// What is shown of a line on each side of a position, in UTF-16 code units.
const REACH = 60;

// As many bytes have that many code units, even if a character is cut at their ends.
const REACH_BYTES = 3 * REACH + 4;

/** The part of the line around an offset of a text. It looks no further than it shows. */
export function excerptAt(text: string, offset: number): Excerpt {
  const before = wellFormed(text.slice(Math.max(0, offset - REACH), offset));
  const after = wellFormed(text.slice(offset, offset + REACH));
  const left = before.slice(before.lastIndexOf('\n') + 1);
  const [right = ''] = after.split(/\r?\n/, 1);
  return { text: left + right, column: Array.from(left).length + 1 };
}

/** Knows what stands around a place of a text that comes in pieces, as far as the pieces have come. */
export class Surroundings {
  #before: Buffer = Buffer.alloc(0);

  /** Goes on after a piece, of which it keeps a copy of what may be shown. */
  pass(piece: Buffer): void {
    this.#before = this.#until(piece, piece.length);
  }

  /** The part of the line around an index of the piece that comes next. */
  at(piece: Buffer, index: number): Excerpt {
    const before = this.#until(piece, index).toString();
    const after = piece.subarray(index, index + REACH_BYTES).toString();
    return excerptAt(before + after, before.length);
  }

  #until(piece: Buffer, index: number): Buffer {
    const last = piece.subarray(Math.max(0, index - REACH_BYTES), index);
    return Buffer.concat([this.#before, last]).subarray(-REACH_BYTES);
  }
}

/** Drops the halves of surrogate pairs that a cut left at the ends. */
function wellFormed(text: string): string {
  return text.replace(/^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/g, '');
}
