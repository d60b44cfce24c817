import { MAX_DEPTH, MAX_RECORD_PARTS } from '../limits.ts';
import { BACKSLASH, BYTE_CLASSES, ByteClass, FIRST_PRINTABLE, QUOTE } from './byte-class.ts';
import type { LineTracker } from './line-tracker.ts';

/**
 * - `open`: the value goes on in the next chunk.
 * - `whole`: the value's end was found. What is inside may still be no JSON.
 * - `broken`: the last byte read stands where JSON allows no such byte.
 * - `too-deep`: the last byte read opened more than {@link MAX_DEPTH} levels.
 * - `too-many`: the last byte read began more than {@link MAX_RECORD_PARTS} objects, lists and strings in all.
 */
export type ScanStatus = 'open' | 'whole' | 'broken' | 'too-deep' | 'too-many';

/**
 * Finds where a JSON value ends, without parsing it. It counts brackets and knows strings, nothing
 * else: the parser says whether the text in between is JSON.
 */
export class ValueScanner {
  status: ScanStatus = 'open';
  /**
   * How many strings are written in the value, keys included. Parsing keeps fewer of them exactly when
   * keys are repeated.
   */
  strings = 0;
  readonly #lines: LineTracker;
  #depth = 0;
  #opened = 0;
  #inString = false;
  #escaped = false;
  #inWord = false;
  #isSkipping = false;

  constructor(lines: LineTracker) {
    this.#lines = lines;
  }

  /** Makes ready for the next value. */
  reset(): void {
    this.status = 'open';
    this.strings = 0;
    this.#depth = 0;
    this.#opened = 0;
    this.#inString = false;
    this.#escaped = false;
    this.#inWord = false;
    this.#isSkipping = false;
  }

  /** Goes on with a value that is beyond a limit, however deep it nests, to find its end alone. */
  skip(): void {
    this.status = 'open';
    this.#isSkipping = true;
  }

  /** Reads on from an index of the chunk, sets `status`, and gives the index it stopped before. */
  advance(bytes: Buffer, from: number): number {
    let index = from;
    while (index < bytes.length) {
      if (this.#inString) {
        index = this.#advanceInString(bytes, index);
        if (this.status !== 'open') return index;
        if (this.#inString) break;
        continue;
      }
      const byteClass = BYTE_CLASSES[bytes[index] ?? 0];
      if (this.#depth === 0 && this.#inWord && byteClass !== ByteClass.word) {
        return this.#stop('whole', index);
      }
      index += 1;
      switch (byteClass) {
        case ByteClass.quote:
          this.strings += 1;
          this.#inString = true;
          if (this.#isTooMany && !this.#isSkipping) return this.#stop('too-many', index);
          break;
        case ByteClass.open:
          this.#depth += 1;
          this.#opened += 1;
          if (this.#isSkipping) break;
          if (this.#depth > MAX_DEPTH) return this.#stop('too-deep', index);
          if (this.#isTooMany) return this.#stop('too-many', index);
          break;
        case ByteClass.close:
          this.#depth -= 1;
          if (this.#depth === 0) return this.#stop('whole', index);
          if (this.#depth < 0) return this.#stop('broken', index);
          break;
        case ByteClass.newline:
          this.#lines.newLine(index);
          break;
        case ByteClass.word:
          this.#inWord = true;
          break;
        case ByteClass.illegal:
          return this.#stop('broken', characterEnd(bytes, index));
        default:
      }
    }
    return index;
  }

  get #isTooMany(): boolean {
    return this.#opened + this.strings > MAX_RECORD_PARTS;
  }

  #advanceInString(bytes: Buffer, from: number): number {
    let index = from;
    while (index < bytes.length) {
      const byte = bytes[index] ?? 0;
      index += 1;
      // JSON has no raw control characters in strings, so a string that was never closed is
      // noticed at the end of its line.
      if (byte < FIRST_PRINTABLE) return this.#stop('broken', index);
      if (this.#escaped) this.#escaped = false;
      else if (byte === BACKSLASH) this.#escaped = true;
      else if (byte === QUOTE) {
        this.#inString = false;
        return this.#depth === 0 ? this.#stop('whole', index) : index;
      }
    }
    return index;
  }

  #stop(status: ScanStatus, index: number): number {
    this.status = status;
    return index;
  }
}

/** The index after the character that begins, or goes on, before `index`. */
export function characterEnd(bytes: Buffer, index: number): number {
  let end = index;
  while (end < bytes.length && ((bytes[end] ?? 0) & 0xc0) === 0x80) end += 1;
  return end;
}

/** The index at which the character begins that `index` is in. */
export function characterStart(bytes: Buffer, index: number): number {
  let start = index;
  while (start > 0 && ((bytes[start] ?? 0) & 0xc0) === 0x80) start -= 1;
  return start;
}
