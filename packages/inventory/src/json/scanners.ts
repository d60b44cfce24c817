import type { FindingCode, Position, Problem } from '../finding.ts';
import { parseRun, parseValue, type RawValue, RecordRun } from './record-run.ts';
import {
  BYTE_CLASSES,
  ByteClass,
  countStrings,
  findCharacterEnd,
  findCharacterStart,
  LineTracker,
  NEWLINE,
  PendingText,
  QUOTE,
  ValueScanner,
} from './scan.ts';
import {
  createLimitProblem,
  createTruncationProblem,
  createUnexpectedProblem,
  formatCharacter,
  isCommentStart,
  NO_COMMENTS_MESSAGE,
  type OpenDelimiter,
} from './syntax-error.ts';

/**
 * - `record`: one inventory record.
 * - `run`: several records that were parsed together.
 * - `root`: a root value that is not an array.
 * - `problem`: an error between values or in a skipped value, at an index of the chunk. It is the last event.
 */
export type ScanEvent =
  | { kind: 'record' | 'root'; value: RawValue }
  | { kind: 'run'; run: RecordRun }
  | { kind: 'problem'; problem: Problem; index: number };

/** Parser state between values. It determines the allowed next tokens. */
type ScanState = 'start' | 'first' | 'next' | 'after-record' | 'end';

const EXPECTED_TOKENS: Record<ScanState, string> = {
  start: 'the "[" that begins the inventory',
  first: 'a record or "]"',
  next: 'a record',
  'after-record': '"," or "]" after the record',
  end: 'nothing more',
};

/** Next state by current state and punctuation character. */
const TRANSITIONS: Partial<Record<string, ScanState>> = {
  'start [': 'first',
  'first ]': 'end',
  'after-record ]': 'end',
  'after-record ,': 'next',
};

/**
 * Splits a JSON array into its items. Chunks must contain complete UTF-8 characters. Memory use is bounded by one item
 * and one chunk.
 */
export class ArrayScanner {
  readonly unit = 'file';
  readonly #lines = new LineTracker();
  readonly #pending = new PendingText();
  readonly #enclosingDelimiters: OpenDelimiter[] = [];
  #value = new ValueScanner(this.#lines);
  #state: ScanState = 'start';
  // Null between values.
  #valueStart: Position | null = null;
  #isSkipping = false;

  /** Returns the position after the last pushed byte. */
  getPosition(): Position {
    return this.#lines.getEndPosition();
  }

  *push(bytes: Buffer): Generator<ScanEvent> {
    this.#lines.enterChunk(bytes);
    let index = 0;
    let recordEnd = 0;
    let canTryRun = true;
    while (index < bytes.length) {
      if (this.#valueStart === null) {
        const nextIndexOrProblem = this.#readBetweenValues(bytes, index);
        if (typeof nextIndexOrProblem !== 'number') {
          yield { kind: 'problem', problem: nextIndexOrProblem, index };
          return;
        }
        index = nextIndexOrProblem;
        if (this.#valueStart !== null && recordEnd > 0 && canTryRun) {
          canTryRun = false;
          index = yield* this.#parseRun(bytes, recordEnd, index);
        }
      } else {
        const valueIndex = index;
        index = this.#value.advance(bytes, valueIndex);
        for (const event of this.#takeValue(
          this.#valueStart,
          bytes.subarray(valueIndex, index),
          index,
        )) {
          yield event;
          if (event.kind === 'problem') return;
        }
        if (this.#valueStart === null) recordEnd = index;
      }
    }
    this.#lines.leaveChunk();
  }

  *end(): Generator<ScanEvent> {
    const end = this.#lines.getEndPosition();
    const truncation = createTruncationProblem(this.unit, end, this.#enclosingDelimiters);
    if (this.#valueStart !== null && !this.#isSkipping) {
      // Outside an array, the end of the file completes a number or word.
      const problem = this.#state === 'start' ? null : truncation;
      yield this.#createEvent(this.#valueStart, this.#pending.take(), problem);
    } else if (this.#state === 'start' && !this.#isSkipping) {
      const message = 'the file is empty; an inventory without records is []';
      yield { kind: 'problem', problem: { code: 'json/empty', message, position: end }, index: 0 };
    } else if (this.#state !== 'end') {
      yield { kind: 'problem', problem: truncation, index: 0 };
    }
  }

  /** Reads one byte between values. Returns the next index or a problem. */
  #readBetweenValues(bytes: Buffer, index: number): number | Problem {
    const byteClass = BYTE_CLASSES[bytes[index] ?? 0];
    if (byteClass === ByteClass.space) return index + 1;
    if (byteClass === ByteClass.newline) {
      this.#lines.startLine(index + 1);
      return index + 1;
    }
    const position = this.#lines.getPosition(index);
    const character = bytes.toString('utf8', index, findCharacterEnd(bytes, index + 1));
    const state = this.#state;
    const nextState = TRANSITIONS[`${state} ${character}`];
    if (nextState !== undefined) {
      if (state === 'start') this.#enclosingDelimiters.push({ kind: 'array', position });
      this.#state = nextState;
      return index + 1;
    }
    if (state === 'next' && character === ']') {
      const message = 'there is a comma before this "]"; remove the comma';
      return { code: 'json/syntax', message, position };
    }
    if (state === 'end') return { ...this.#describeTrailingData(character), position };
    const isValueStart =
      byteClass === ByteClass.word || byteClass === ByteClass.quote || byteClass === ByteClass.open;
    if (state === 'after-record' || !isValueStart) {
      return createUnexpectedProblem(character, EXPECTED_TOKENS[state], position);
    }
    this.#valueStart = position;
    this.#value = new ValueScanner(this.#lines);
    return index;
  }

  /**
   * Parses the records up to the last occurrence of the current separator in the chunk.
   * Returns the index after the records, or the same index if records must be read one by one.
   */
  *#parseRun(bytes: Buffer, recordEnd: number, from: number): Generator<ScanEvent, number> {
    const quoteIndex = bytes.indexOf(QUOTE, from);
    const keyEnd = quoteIndex === -1 ? from : Math.max(bytes.indexOf(QUOTE, quoteIndex + 1), from);
    const separator = bytes.subarray(recordEnd - 1, keyEnd + 1);
    const end = bytes.lastIndexOf(separator) + 1;
    if (end <= from) return from;
    const records = parseRun(bytes.subarray(from, end), separator, from - recordEnd + 1);
    if (records === null) return from;
    const enclosingDelimiters = this.#enclosingDelimiters;
    const run = new RecordRun(records, { bytes, from, lines: this.#lines, enclosingDelimiters });
    yield { kind: 'run', run };
    run.leaveChunk();
    this.#valueStart = null;
    this.#state = 'after-record';
    return end;
  }

  #describeTrailingData(character: string): { code: FindingCode; message: string } {
    if (isCommentStart(character)) return { code: 'json/syntax', message: NO_COMMENTS_MESSAGE };
    const [endedPart, advice] =
      this.#enclosingDelimiters.length > 0
        ? ['the array of records', 'remove it']
        : [
            'the first value',
            'put records into one array, or one per line into a .jsonl file (--input-format jsonl)',
          ];
    const message = `${endedPart} has ended, but ${formatCharacter(character)} follows; ${advice}`;
    return { code: 'json/trailing-data', message };
  }

  /** Stores the bytes of an open value, or emits a value that ended or exceeded a limit. */
  *#takeValue(start: Position, bytes: Buffer, index: number): Generator<ScanEvent> {
    const { status } = this.#value;
    if (this.#isSkipping) {
      yield* this.#skipValue(bytes, index);
    } else if (this.#pending.wouldExceedLimit(bytes)) {
      const problem = createLimitProblem('too-large', start, 'record');
      yield this.#createEvent(start, this.#pending.takeWithinLimit(bytes), problem);
      yield* this.#skipValue(bytes, index);
    } else if (status === 'too-deep' || status === 'too-many') {
      const position = status === 'too-deep' ? this.#lines.getPosition(index - 1) : start;
      const problem = createLimitProblem(status, position, 'record');
      yield this.#createEvent(start, this.#pending.take(bytes), problem);
      yield* this.#skipValue(bytes, index);
    } else if (status === 'open') {
      this.#pending.append(bytes);
    } else {
      yield this.#createEvent(start, this.#pending.take(bytes), null);
      this.#endValue();
    }
  }

  /** Skips to the end of a value that exceeds a limit. Invalid JSON within the value ends the scan. */
  *#skipValue(bytes: Buffer, index: number): Generator<ScanEvent> {
    const { status } = this.#value;
    this.#isSkipping = status !== 'whole';
    if (status === 'whole') this.#endValue();
    else if (status === 'broken') {
      const lastCharacterStart = findCharacterStart(bytes, bytes.length - 1);
      const characterIndex = index - (bytes.length - lastCharacterStart);
      const expected = 'the rest of a record that is too large';
      const character = bytes.toString('utf8', lastCharacterStart);
      const problem = createUnexpectedProblem(
        character,
        expected,
        this.#lines.getPosition(characterIndex),
      );
      yield { kind: 'problem', problem, index: characterIndex };
    } else this.#value.ignoreLimits();
  }

  #endValue(): void {
    this.#valueStart = null;
    this.#state = this.#state === 'start' ? 'end' : 'after-record';
  }

  #createEvent(start: Position, bytes: Buffer, truncation: Problem | null): ScanEvent {
    const { stringCount } = this.#value;
    const value = {
      text: bytes.toString(),
      start,
      stringCount,
      enclosingDelimiters: this.#enclosingDelimiters,
      truncation,
    };
    return { kind: this.#state === 'start' ? 'root' : 'record', value };
  }
}

const BLANK_LINE_PATTERN = /^[ \t\r]*$/;

/** Splits JSON Lines into records. Chunks must contain complete UTF-8 characters. */
export class LinesScanner {
  readonly unit = 'line';
  readonly #lines = new LineTracker();
  readonly #pending = new PendingText();
  #start: Position = { line: 1, column: 1 };
  #isSkipping = false;

  /** Returns the position after the last pushed byte. */
  getPosition(): Position {
    return this.#lines.getEndPosition();
  }

  *push(bytes: Buffer): Generator<ScanEvent> {
    this.#lines.enterChunk(bytes);
    let from = 0;
    for (;;) {
      const newline = bytes.indexOf(NEWLINE, from);
      const isWhole = newline !== -1;
      yield* this.#scanPart(bytes.subarray(from, isWhole ? newline : bytes.length), isWhole);
      if (!isWhole) break;
      from = newline + 1;
      this.#lines.startLine(from);
      this.#start = this.#lines.getPosition(from);
      this.#isSkipping = false;
    }
    this.#lines.leaveChunk();
  }

  *end(): Generator<ScanEvent> {
    yield* this.#scanLine(this.#pending.take());
  }

  *#scanPart(bytes: Buffer, isWhole: boolean): Generator<ScanEvent> {
    if (this.#isSkipping) return;
    if (this.#pending.wouldExceedLimit(bytes)) {
      this.#isSkipping = true;
      const textWithinLimit = this.#pending.takeWithinLimit(bytes).toString();
      yield this.#createRecordEvent(
        textWithinLimit,
        0,
        createLimitProblem('too-large', this.#start, 'line'),
      );
    } else if (isWhole) yield* this.#scanLine(this.#pending.take(bytes));
    else this.#pending.append(bytes);
  }

  *#scanLine(bytes: Buffer): Generator<ScanEvent> {
    const text = bytes.toString();
    const parsedValue = parseValue(text);
    if (parsedValue !== null) {
      const { value } = this.#createRecordEvent(text, countStrings(bytes).stringCount, null);
      yield { kind: 'record', value: { ...value, parsedValue } };
      return;
    }
    if (BLANK_LINE_PATTERN.test(text)) return;
    const scanner = new ValueScanner(new LineTracker());
    const endIndex = scanner.advance(bytes, 0);
    const { status, stringCount } = scanner;
    if (status !== 'too-deep' && status !== 'too-many')
      yield this.#createRecordEvent(text, stringCount, null);
    else {
      const scannedText = bytes.toString('utf8', 0, endIndex);
      const column = Array.from(scannedText).length;
      const position = status === 'too-deep' ? { ...this.#start, column } : this.#start;
      yield this.#createRecordEvent(scannedText, 0, createLimitProblem(status, position, 'line'));
    }
  }

  #createRecordEvent(text: string, stringCount: number, truncation: Problem | null) {
    const value: RawValue = {
      text,
      start: this.#start,
      stringCount,
      enclosingDelimiters: [],
      truncation,
    };
    return { kind: 'record' as const, value };
  }
}
