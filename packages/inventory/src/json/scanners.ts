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
 * - `record`: one item of the inventory.
 * - `run`: several items that were parsed together.
 * - `root`: a root value that is not an array.
 * - `problem`: an error between values, at an index of the chunk. It is the last event.
 */
export type ScanEvent =
  | { kind: 'record' | 'root'; value: RawValue }
  | { kind: 'run'; run: RecordRun }
  | { kind: 'problem'; problem: Problem; index: number };

/** Parser state between values. It determines the allowed next tokens. */
type State = 'start' | 'first' | 'next' | 'after-record' | 'end';

const EXPECTED: Record<State, string> = {
  start: 'the "[" that begins the inventory',
  first: 'a record or "]"',
  next: 'a record',
  'after-record': '"," or "]" after the record',
  end: 'nothing more',
};

/** State after each punctuation character that is allowed in a state. */
const TRANSITIONS: Partial<Record<string, State>> = {
  'start [': 'first',
  'first ]': 'end',
  'after-record ]': 'end',
  'after-record ,': 'next',
};

/** Splits a JSON array into its items. Chunks must contain whole UTF-8 characters. Memory is bounded by one item. */
export class ArrayScanner {
  readonly unit = 'file';
  readonly #lines = new LineTracker();
  readonly #pending = new PendingText();
  readonly #enclosing: OpenDelimiter[] = [];
  #value = new ValueScanner(this.#lines);
  #state: State = 'start';
  // Null between values.
  #valueStart: Position | null = null;
  #isSkipping = false;

  /** Returns the position after the last pushed byte. */
  position(): Position {
    return this.#lines.end();
  }

  *push(bytes: Buffer): Generator<ScanEvent> {
    this.#lines.enter(bytes);
    let index = 0;
    let recordEnd = 0;
    let canTryRun = true;
    while (index < bytes.length) {
      if (this.#valueStart === null) {
        const step = this.#stepBetween(bytes, index);
        if (typeof step !== 'number') {
          yield { kind: 'problem', problem: step, index };
          return;
        }
        index = step;
        if (this.#valueStart !== null && recordEnd > 0 && canTryRun) {
          canTryRun = false;
          index = yield* this.#run(bytes, recordEnd, index);
        }
      } else {
        const from = index;
        index = this.#value.advance(bytes, from);
        for (const event of this.#takeValue(this.#valueStart, bytes.subarray(from, index), index)) {
          yield event;
          if (event.kind === 'problem') return;
        }
        if (this.#valueStart === null) recordEnd = index;
      }
    }
    this.#lines.leave();
  }

  *end(): Generator<ScanEvent> {
    const end = this.#lines.end();
    const truncation = createTruncationProblem(this.unit, end, this.#enclosing);
    if (this.#valueStart !== null && !this.#isSkipping) {
      // Outside an array, the end of the file completes a number or word.
      const cut = this.#state === 'start' ? null : truncation;
      yield this.#event(this.#valueStart, this.#pending.take(), cut);
    } else if (this.#state === 'start' && !this.#isSkipping) {
      const message = 'the file is empty; an inventory without records is []';
      yield { kind: 'problem', problem: { code: 'json/empty', message, position: end }, index: 0 };
    } else if (this.#state !== 'end') {
      yield { kind: 'problem', problem: truncation, index: 0 };
    }
  }

  /** Reads one byte between values. Returns the next index or a problem. */
  #stepBetween(bytes: Buffer, index: number): number | Problem {
    const byteClass = BYTE_CLASSES[bytes[index] ?? 0];
    if (byteClass === ByteClass.space) return index + 1;
    if (byteClass === ByteClass.newline) {
      this.#lines.newLine(index + 1);
      return index + 1;
    }
    const position = this.#lines.at(index);
    const character = bytes.toString('utf8', index, findCharacterEnd(bytes, index + 1));
    const state = this.#state;
    const next = TRANSITIONS[`${state} ${character}`];
    if (next !== undefined) {
      if (state === 'start') this.#enclosing.push({ kind: 'array', position });
      this.#state = next;
      return index + 1;
    }
    if (state === 'next' && character === ']') {
      const message = 'there is a comma before this "]"; remove the comma';
      return { code: 'json/syntax', message, position };
    }
    if (state === 'end') return { ...this.#describeTrailing(character), position };
    const beginsValue =
      byteClass === ByteClass.word || byteClass === ByteClass.quote || byteClass === ByteClass.open;
    if (state === 'after-record' || !beginsValue) {
      return createUnexpectedProblem(character, EXPECTED[state], position);
    }
    this.#valueStart = position;
    this.#value = new ValueScanner(this.#lines);
    return index;
  }

  /**
   * Parses the records up to the last occurrence of the current separator in the chunk.
   * Returns the index after the records, or the same index if records must be read one by one.
   */
  *#run(bytes: Buffer, recordEnd: number, from: number): Generator<ScanEvent, number> {
    const opening = bytes.indexOf(QUOTE, from);
    const keyEnd = opening === -1 ? from : Math.max(bytes.indexOf(QUOTE, opening + 1), from);
    const separator = bytes.subarray(recordEnd - 1, keyEnd + 1);
    const end = bytes.lastIndexOf(separator) + 1;
    if (end <= from) return from;
    const records = parseRun(bytes.subarray(from, end), separator, from - recordEnd + 1);
    if (records === null) return from;
    const place = { lines: this.#lines, enclosing: this.#enclosing };
    const run = new RecordRun(records, { bytes, from }, place);
    yield { kind: 'run', run };
    run.leave();
    this.#valueStart = null;
    this.#state = 'after-record';
    return end;
  }

  #describeTrailing(character: string): { code: FindingCode; message: string } {
    if (isCommentStart(character)) return { code: 'json/syntax', message: NO_COMMENTS_MESSAGE };
    const [ended, advice] =
      this.#enclosing.length > 0
        ? ['the array of records', 'remove it']
        : [
            'the first value',
            'put records into one array, or one per line into a .jsonl file (--input-format jsonl)',
          ];
    const message = `${ended} has ended, but ${formatCharacter(character)} follows; ${advice}`;
    return { code: 'json/trailing-data', message };
  }

  /** Stores the bytes of an open value, or emits a value that ended or exceeded a limit. */
  *#takeValue(start: Position, bytes: Buffer, index: number): Generator<ScanEvent> {
    const { status } = this.#value;
    if (this.#isSkipping) {
      yield* this.#skip(bytes, index);
    } else if (this.#pending.exceedsLimitWith(bytes)) {
      const problem = createLimitProblem('too-large', start, 'record');
      yield this.#event(start, this.#pending.takeBeginning(bytes), problem);
      yield* this.#skip(bytes, index);
    } else if (status === 'too-deep' || status === 'too-many') {
      const position = status === 'too-deep' ? this.#lines.at(index - 1) : start;
      const problem = createLimitProblem(status, position, 'record');
      yield this.#event(start, this.#pending.take(bytes), problem);
      yield* this.#skip(bytes, index);
    } else if (status === 'open') {
      this.#pending.append(bytes);
    } else {
      yield this.#event(start, this.#pending.take(bytes), null);
      this.#endValue();
    }
  }

  /** Skips to the end of a value that exceeds a limit. Invalid JSON within the value ends the scan. */
  *#skip(bytes: Buffer, index: number): Generator<ScanEvent> {
    const { status } = this.#value;
    this.#isSkipping = status !== 'whole';
    if (status === 'whole') this.#endValue();
    else if (status === 'broken') {
      const last = findCharacterStart(bytes, bytes.length - 1);
      const at = index - (bytes.length - last);
      const expected = 'the rest of a record that is too large';
      const character = bytes.toString('utf8', last);
      const problem = createUnexpectedProblem(character, expected, this.#lines.at(at));
      yield { kind: 'problem', problem, index: at };
    } else this.#value.ignoreLimits();
  }

  #endValue(): void {
    this.#valueStart = null;
    this.#state = this.#state === 'start' ? 'end' : 'after-record';
  }

  #event(start: Position, bytes: Buffer, cut: Problem | null): ScanEvent {
    const { strings } = this.#value;
    const value = { text: bytes.toString(), start, strings, enclosing: this.#enclosing, cut };
    return { kind: this.#state === 'start' ? 'root' : 'record', value };
  }
}

const BLANK_LINE = /^[ \t\r]*$/;

/** Splits JSON Lines into records. Chunks must contain whole UTF-8 characters. */
export class LinesScanner {
  readonly unit = 'line';
  readonly #lines = new LineTracker();
  readonly #pending = new PendingText();
  #start: Position = { line: 1, column: 1 };
  #isSkipping = false;

  /** Returns the position after the last pushed byte. */
  position(): Position {
    return this.#lines.end();
  }

  *push(bytes: Buffer): Generator<ScanEvent> {
    this.#lines.enter(bytes);
    let from = 0;
    for (;;) {
      const newline = bytes.indexOf(NEWLINE, from);
      const isWhole = newline !== -1;
      yield* this.#part(bytes.subarray(from, isWhole ? newline : bytes.length), isWhole);
      if (!isWhole) break;
      from = newline + 1;
      this.#lines.newLine(from);
      this.#start = this.#lines.at(from);
      this.#isSkipping = false;
    }
    this.#lines.leave();
  }

  *end(): Generator<ScanEvent> {
    yield* this.#line(this.#pending.take());
  }

  *#part(bytes: Buffer, isWhole: boolean): Generator<ScanEvent> {
    if (this.#isSkipping) return;
    if (this.#pending.exceedsLimitWith(bytes)) {
      this.#isSkipping = true;
      const beginning = this.#pending.takeBeginning(bytes).toString();
      yield this.#record(beginning, 0, createLimitProblem('too-large', this.#start, 'line'));
    } else if (isWhole) yield* this.#line(this.#pending.take(bytes));
    else this.#pending.append(bytes);
  }

  *#line(bytes: Buffer): Generator<ScanEvent> {
    const text = bytes.toString();
    const parsed = parseValue(text);
    if (parsed !== null) {
      const { value } = this.#record(text, countStrings(bytes).strings, null);
      yield { kind: 'record', value: { ...value, parsed } };
      return;
    }
    if (BLANK_LINE.test(text)) return;
    const scanner = new ValueScanner(new LineTracker());
    const stop = scanner.advance(bytes, 0);
    const { status, strings } = scanner;
    if (status !== 'too-deep' && status !== 'too-many') yield this.#record(text, strings, null);
    else {
      const read = bytes.toString('utf8', 0, stop);
      const column = Array.from(read).length;
      const position = status === 'too-deep' ? { ...this.#start, column } : this.#start;
      yield this.#record(read, 0, createLimitProblem(status, position, 'line'));
    }
  }

  #record(text: string, strings: number, cut: Problem | null) {
    const value: RawValue = { text, start: this.#start, strings, enclosing: [], cut };
    return { kind: 'record' as const, value };
  }
}
