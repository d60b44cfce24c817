import { MAX_RECORD_BYTES } from '../limits.ts';

const NOTHING = Buffer.alloc(0);

/** The bytes of a value that began in an earlier chunk. */
export class PendingText {
  // Grows by doubling, so that it is copied seldom, however small the chunks are.
  #buffer = NOTHING;
  #length = 0;

  get isEmpty(): boolean {
    return this.#length === 0;
  }

  /** Whether the value is larger than the limit with these bytes of the current chunk. */
  exceedsLimitWith(bytes: Buffer): boolean {
    return this.#length + bytes.length > MAX_RECORD_BYTES;
  }

  /** Keeps a copy, as the source may use its buffer again. */
  append(bytes: Buffer): void {
    const length = this.#length + bytes.length;
    if (length > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(length, 2 * this.#buffer.length));
      this.#buffer.copy(larger, 0, 0, this.#length);
      this.#buffer = larger;
    }
    this.#buffer.set(bytes, this.#length);
    this.#length = length;
  }

  /**
   * The beginning of a value that exceeds the limit with these bytes: as much as the limit allows, wherever the
   * chunks end, and up to the end of a character. Nothing is kept.
   */
  takeBeginning(last: Buffer): Buffer {
    const bytes = this.take(last);
    let end = Math.min(bytes.length, MAX_RECORD_BYTES);
    while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
    return bytes.subarray(0, end);
  }

  /** All the bytes of the value, of which these are the last; nothing is kept. */
  take(last: Buffer = NOTHING): Buffer {
    if (this.isEmpty) return last;
    this.append(last);
    const bytes = this.#buffer.subarray(0, this.#length);
    this.#buffer = NOTHING;
    this.#length = 0;
    return bytes;
  }
}
