import { isAscii } from 'node:buffer';
import type { Position } from '../finding.ts';
import { MAX_DEPTH, MAX_RECORD_BYTES, MAX_RECORD_PARTS } from '../limits.ts';

export const QUOTE = 0x22;
export const BACKSLASH = 0x5c;
export const NEWLINE = 0x0a;
/** JSON strings must not contain raw characters below this code. */
export const FIRST_PRINTABLE = 0x20;

/** Classes of bytes outside strings. All letters belong to words, because messages quote words such as `NaN`. */
export const ByteClass = {
  illegal: 0,
  word: 1,
  space: 2,
  newline: 3,
  quote: 4,
  open: 5,
  close: 6,
  separator: 7,
} as const;

export const BYTE_CLASSES = new Uint8Array(256);
for (const [byteClass, characters] of [
  [ByteClass.space, ' \t\r'],
  [ByteClass.newline, '\n'],
  [ByteClass.quote, '"'],
  [ByteClass.open, '[{'],
  [ByteClass.close, ']}'],
  [ByteClass.separator, ':,'],
  [ByteClass.word, '+-._$0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'],
] as const) {
  for (const character of characters) BYTE_CLASSES[character.charCodeAt(0)] = byteClass;
}

const NO_BYTES = Buffer.alloc(0);
// Adding table entries avoids branches and takes half the time of comparing bytes.
const IS_QUOTE = new Uint8Array(256);
IS_QUOTE[QUOTE] = 1;
const IS_NEWLINE = new Uint8Array(256);
IS_NEWLINE[NEWLINE] = 1;

/** Counts the strings, including keys, and the newlines of JSON text. */
export function countStrings(json: Buffer): { stringCount: number; newlineCount: number } {
  let quoteCount = 0;
  let newlineCount = 0;
  for (let index = 0; index < json.length; index += 1) {
    const byte = json[index] ?? 0;
    quoteCount += IS_QUOTE[byte] ?? 0;
    newlineCount += IS_NEWLINE[byte] ?? 0;
  }
  // Backslashes occur only in strings, where each escapes the next character.
  let escapeIndex = json.indexOf(BACKSLASH);
  while (escapeIndex !== -1) {
    if (json[escapeIndex + 1] === QUOTE) quoteCount -= 1;
    escapeIndex = json.indexOf(BACKSLASH, escapeIndex + 2);
  }
  return { stringCount: quoteCount / 2, newlineCount };
}

/** Returns the first character boundary at or after `index`. */
export function findCharacterEnd(bytes: Buffer, index: number): number {
  let end = index;
  while (isContinuation(bytes[end])) end += 1;
  return end;
}

/** Returns the index of the first byte of the character at `index`. */
export function findCharacterStart(bytes: Buffer, index: number): number {
  let start = index;
  while (start > 0 && isContinuation(bytes[start])) start -= 1;
  return start;
}

function isContinuation(byte = 0): boolean {
  return (byte & 0xc0) === 0x80;
}

/** Tracks lines and columns in text that arrives in chunks. Counts each byte once, so positions must ascend. */
export class LineTracker {
  #bytes: Buffer = NO_BYTES;
  #isAscii = true;
  #line = 1;
  #lastIndex = 0;
  #lastColumn = 1;

  enterChunk(bytes: Buffer): void {
    this.#bytes = bytes;
    this.#isAscii = isAscii(bytes);
    this.#lastIndex = 0;
  }

  /** Ends the chunk; the source may reuse its buffer. */
  leaveChunk(): void {
    this.getEndPosition();
    this.#bytes = NO_BYTES;
    this.#lastIndex = 0;
  }

  /** Records that a line begins at an index. */
  startLine(index: number): void {
    this.#line += 1;
    this.#lastIndex = index;
    this.#lastColumn = 1;
  }

  /** Advances to an index, past a known number of newlines. */
  skipTo(index: number, newlineCount: number): void {
    if (newlineCount === 0) return;
    let lineStart = index;
    while (this.#bytes[lineStart - 1] !== NEWLINE) lineStart -= 1;
    this.startLine(lineStart);
    this.#line += newlineCount - 1;
  }

  /** Returns the position of a byte on the current line. */
  getPosition(index: number): Position {
    if (this.#isAscii) this.#lastColumn += index - this.#lastIndex;
    else {
      for (let byteIndex = this.#lastIndex; byteIndex < index; byteIndex += 1) {
        if (!isContinuation(this.#bytes[byteIndex])) this.#lastColumn += 1;
      }
    }
    this.#lastIndex = index;
    return { line: this.#line, column: this.#lastColumn };
  }

  /** Returns the position after the last byte. */
  getEndPosition(): Position {
    return this.getPosition(this.#bytes.length);
  }
}

/** Bytes of a value that began in an earlier chunk. The buffer grows by doubling, which limits copying. */
export class PendingText {
  #buffer = NO_BYTES;
  #length = 0;

  /** Returns whether the value with these bytes would exceed the size limit. */
  wouldExceedLimit(bytes: Buffer): boolean {
    return this.#length + bytes.length > MAX_RECORD_BYTES;
  }

  append(bytes: Buffer): void {
    const length = this.#length + bytes.length;
    if (length > this.#buffer.length) {
      const largerBuffer = Buffer.allocUnsafe(Math.max(length, 2 * this.#buffer.length));
      this.#buffer.copy(largerBuffer, 0, 0, this.#length);
      this.#buffer = largerBuffer;
    }
    this.#buffer.set(bytes, this.#length);
    this.#length = length;
  }

  /** Clears the buffer and returns its bytes, followed by `lastBytes`. */
  take(lastBytes: Buffer = NO_BYTES): Buffer {
    if (this.#length === 0) return lastBytes;
    this.append(lastBytes);
    const bytes = this.#buffer.subarray(0, this.#length);
    this.#buffer = NO_BYTES;
    this.#length = 0;
    return bytes;
  }

  /** Returns the bytes within the size limit and clears the buffer. */
  takeWithinLimit(lastBytes: Buffer): Buffer {
    const bytes = this.take(lastBytes);
    return bytes.subarray(0, findCharacterStart(bytes, Math.min(bytes.length, MAX_RECORD_BYTES)));
  }
}

/**
 * - `open`: the value continues in the next chunk.
 * - `whole`: the end was found, but the text may still be invalid JSON.
 * - `broken`: JSON does not allow the last byte read at its position.
 * - `too-deep`, `too-many`: the last byte read exceeded {@link MAX_DEPTH} or {@link MAX_RECORD_PARTS}.
 */
type ScanStatus = 'open' | 'whole' | 'broken' | 'too-deep' | 'too-many';

/** Finds the end of one JSON value without parsing it: counts brackets and recognizes strings. */
export class ValueScanner {
  status: ScanStatus = 'open';
  /** Number of strings in the text, including keys. The parsed value has fewer if and only if keys are repeated. */
  stringCount = 0;
  readonly #lines: LineTracker;
  #depth = 0;
  #containerCount = 0;
  #isInString = false;
  #isEscaped = false;
  #isInWord = false;
  #hasLimits = true;

  constructor(lines: LineTracker) {
    this.#lines = lines;
  }

  /** Continues to the end of a value that exceeded a limit. */
  ignoreLimits(): void {
    this.status = 'open';
    this.#hasLimits = false;
  }

  /** Scans a chunk from an index and updates `status`. Returns the index after the last byte read. */
  advance(bytes: Buffer, from: number): number {
    let index = from;
    while (index < bytes.length && this.status === 'open') {
      if (this.#isInString) {
        index = this.#advanceInString(bytes, index);
        continue;
      }
      const byteClass = BYTE_CLASSES[bytes[index] ?? 0];
      if (this.#depth === 0 && this.#isInWord && byteClass !== ByteClass.word) {
        this.status = 'whole';
        return index;
      }
      index += 1;
      switch (byteClass) {
        case ByteClass.quote:
          this.stringCount += 1;
          this.#isInString = true;
          this.#checkLimits();
          break;
        case ByteClass.open:
          this.#depth += 1;
          this.#containerCount += 1;
          this.#checkLimits();
          break;
        case ByteClass.close:
          this.#depth -= 1;
          if (this.#depth <= 0) this.status = this.#depth === 0 ? 'whole' : 'broken';
          break;
        case ByteClass.newline:
          this.#lines.startLine(index);
          break;
        case ByteClass.word:
          this.#isInWord = true;
          break;
        case ByteClass.illegal:
          this.status = 'broken';
          return findCharacterEnd(bytes, index);
        default:
      }
    }
    return index;
  }

  #checkLimits(): void {
    if (!this.#hasLimits) return;
    if (this.#depth > MAX_DEPTH) this.status = 'too-deep';
    else if (this.#containerCount + this.stringCount > MAX_RECORD_PARTS) this.status = 'too-many';
  }

  #advanceInString(bytes: Buffer, from: number): number {
    for (let index = from; index < bytes.length; index += 1) {
      const byte = bytes[index] ?? 0;
      if (byte < FIRST_PRINTABLE) {
        // A raw control character is invalid. An unclosed string ends at the newline.
        this.status = 'broken';
        return index + 1;
      }
      if (this.#isEscaped) this.#isEscaped = false;
      else if (byte === BACKSLASH) this.#isEscaped = true;
      else if (byte === QUOTE) {
        this.#isInString = false;
        if (this.#depth === 0) this.status = 'whole';
        return index + 1;
      }
    }
    return bytes.length;
  }
}
