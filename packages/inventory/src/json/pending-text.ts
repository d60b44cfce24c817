import { MAX_RECORD_BYTES } from '../limits.ts';
import type { Position, Problem } from '../finding.ts';

/** The bytes of a value that began in an earlier chunk. */
export class PendingText {
  #parts: Buffer[] = [];
  #bytes = 0;

  get isEmpty(): boolean {
    return this.#bytes === 0;
  }

  /** Whether the value is larger than the limit with these bytes of the current chunk. */
  exceedsLimitWith(bytes: Buffer): boolean {
    return this.#bytes + bytes.length > MAX_RECORD_BYTES;
  }

  append(bytes: Buffer): void {
    // The source may use its buffer again, so what is kept is copied.
    this.#parts.push(Buffer.from(bytes));
    this.#bytes += bytes.length;
  }

  /** All the bytes of the value, of which these are the last; nothing is kept. */
  take(last: Buffer = Buffer.alloc(0)): Buffer {
    if (this.#parts.length === 0) return last;
    const bytes = Buffer.concat([...this.#parts, last]);
    this.#parts = [];
    this.#bytes = 0;
    return bytes;
  }
}

/** The problem of a value that begins here and is larger than the limit. */
export function tooLarge(position: Position): Problem {
  const limit = MAX_RECORD_BYTES / 1024 / 1024;
  return {
    code: 'limit/record-size',
    message: `this value is larger than ${limit} MiB; nothing after it was read`,
    position,
  };
}
