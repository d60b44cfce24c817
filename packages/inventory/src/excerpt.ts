import type { Excerpt } from './finding.ts';
import { type Cut, maskAround } from './credentials.ts';

// What is shown of a line on each side of a position, in UTF-16 code units.
const REACH = 60;

// How far a line is looked at, in UTF-16 code units: what is shown may be the end of a password.
const READ = 1024;

// As many bytes have that many code units, even if a character is cut at their ends.
const READ_BYTES = 3 * READ + 4;

/**
 * The part of the line around an offset of a text, in which credentials are masked. It looks little further than
 * it shows.
 * @param cut Where the text is a piece of a longer one.
 */
export function excerptAt(text: string, offset: number, cut: Cut = {}): Excerpt {
  const from = Math.max(0, offset - READ);
  const read = text.slice(from, offset + READ);
  const { left, right } = maskAround(read, offset - from, {
    isCutBefore: from > 0 || (cut.isCutBefore ?? false),
    isCutAfter: offset + READ < text.length || (cut.isCutAfter ?? false),
  });
  const before = wellFormed(left.slice(-REACH));
  const after = wellFormed(right.slice(0, REACH));
  const shown = before.slice(before.lastIndexOf('\n') + 1);
  const [rest = ''] = after.split(/\r?\n/, 1);
  return { text: shown + rest, column: Array.from(shown).length + 1 };
}

/** Knows what stands around a place of a text that comes in pieces, as far as the pieces have come. */
export class Surroundings {
  #before: Buffer = Buffer.alloc(0);
  #isCut = false;

  /** Goes on after a piece, of which it keeps a copy of what may be shown. */
  pass(piece: Buffer): void {
    this.#isCut = this.#isCutAt(piece.length);
    this.#before = this.#until(piece, piece.length);
  }

  /** The part of the line around an index of the piece that comes next. */
  at(piece: Buffer, index: number): Excerpt {
    const before = this.#until(piece, index).toString();
    const after = piece.subarray(index, index + READ_BYTES).toString();
    // What follows the piece is not known.
    const cut = { isCutBefore: this.#isCutAt(index), isCutAfter: true };
    return excerptAt(before + after, before.length, cut);
  }

  /** Whether what stands before an index of the piece that comes next is more than what is kept. */
  #isCutAt(index: number): boolean {
    return this.#isCut || this.#before.length + index > READ_BYTES;
  }

  #until(piece: Buffer, index: number): Buffer {
    const last = piece.subarray(Math.max(0, index - READ_BYTES), index);
    return Buffer.concat([this.#before, last]).subarray(-READ_BYTES);
  }
}

/** Drops the halves of surrogate pairs that a cut left at the ends. */
function wellFormed(text: string): string {
  return text.replace(/^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/g, '');
}
