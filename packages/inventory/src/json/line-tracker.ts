import { isAscii } from 'node:buffer';
import type { Position } from '../finding.ts';
import { NEWLINE } from './byte-class.ts';

const NOTHING = Buffer.alloc(0);

/**
 * Knows the line and column of places in a text that comes chunk by chunk, when it is asked about
 * them in their order. Each byte is counted at most once, so one very long line costs no more
 * than many short ones.
 */
export class LineTracker {
  #bytes: Buffer = NOTHING;
  #isAscii = true;
  #line = 1;
  // The column of the byte at this index is known; what stands before it is not looked at again.
  #knownIndex = 0;
  #knownColumn = 1;

  /** Goes on with the next chunk, which must begin at the beginning of a character. */
  enter(bytes: Buffer): void {
    this.#bytes = bytes;
    this.#isAscii = isAscii(bytes);
    this.#knownIndex = 0;
  }

  /** Ends with the chunk, which is not looked at any more: the source may use its buffer again. */
  leave(): void {
    this.at(this.#bytes.length);
    this.#bytes = NOTHING;
    this.#knownIndex = 0;
  }

  /** Notes that a line begins at this index. */
  newLine(index: number): void {
    this.#line += 1;
    this.#knownIndex = index;
    this.#knownColumn = 1;
  }

  /** Goes on to this index, past so many ends of lines. */
  skipTo(index: number, newlines: number): void {
    if (newlines === 0) return;
    let lineStart = index;
    // The last one is near: records rarely stand far behind the beginning of their line.
    while (this.#bytes[lineStart - 1] !== NEWLINE) lineStart -= 1;
    this.newLine(lineStart);
    this.#line += newlines - 1;
  }

  /** The position of the byte at this index of the chunk, on the current line. */
  at(index: number): Position {
    this.#knownColumn += this.#isAscii
      ? index - this.#knownIndex
      : countCharacters(this.#bytes, this.#knownIndex, index);
    this.#knownIndex = index;
    return { line: this.#line, column: this.#knownColumn };
  }

  /** The position after everything that was entered. */
  end(): Position {
    return this.at(this.#bytes.length);
  }
}

function countCharacters(bytes: Buffer, from: number, to: number): number {
  let count = 0;
  for (let index = from; index < to; index += 1) {
    // Every character has one byte that is no continuation byte (10xxxxxx).
    if (((bytes[index] ?? 0) & 0xc0) !== 0x80) count += 1;
  }
  return count;
}
