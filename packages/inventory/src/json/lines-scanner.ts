import type { Position, Problem } from '../finding.ts';
import { BLANK_LINE } from './blank-line.ts';
import { NEWLINE } from './byte-class.ts';
import { tooDeep, tooLarge, tooMany } from './limit-problem.ts';
import { LineTracker } from './line-tracker.ts';
import { PendingText } from './pending-text.ts';
import type { ScanEvent, Scanner, TakeRun } from './scan-event.ts';
import { tally } from './tally.ts';
import { ValueScanner } from './value-scanner.ts';

/** What is not read of a line that is beyond a limit. */
const REST = 'the rest of the line was not read';

/** Cuts JSON Lines into records: one a line, blank lines being none. */
export class LinesScanner implements Scanner {
  readonly what = 'line';
  readonly #lines = new LineTracker();
  readonly #pending = new PendingText();
  readonly #takeRun: TakeRun | undefined;
  #start: Position = { line: 1, column: 1 };
  // Whether the line was told as too large, and its end is waited for.
  #isSkipping = false;

  constructor(takeRun?: TakeRun) {
    this.#takeRun = takeRun;
  }

  position(): Position {
    return this.#lines.end();
  }

  *push(bytes: Buffer): Generator<ScanEvent> {
    this.#lines.enter(bytes);
    let from = 0;
    let isRunTried = this.#takeRun === undefined;
    for (;;) {
      if (!isRunTried && this.#pending.isEmpty && !this.#isSkipping) {
        isRunTried = true;
        from = this.#passRun(bytes, from);
      }
      const newline = bytes.indexOf(NEWLINE, from);
      const isWhole = newline !== -1;
      yield* this.#lineWith(bytes.subarray(from, isWhole ? newline : bytes.length), isWhole);
      if (!isWhole) break;
      from = this.#beginLine(newline + 1, 1);
    }
    this.#lines.leave();
  }

  *end(): Generator<ScanEvent> {
    yield* this.#line(this.#pending.take());
  }

  /** Passes all whole lines from here on, if they are taken, and gives the index after them. */
  #passRun(bytes: Buffer, from: number): number {
    const end = bytes.lastIndexOf(NEWLINE) + 1;
    if (this.#takeRun === undefined || end <= from) return from;
    const run = bytes.subarray(from, end);
    const { strings, newlines } = tally(run);
    return this.#takeRun(run, strings) ? this.#beginLine(end, newlines) : from;
  }

  #beginLine(index: number, newlines: number): number {
    this.#lines.skipTo(index, newlines);
    this.#start = this.#lines.at(index);
    this.#isSkipping = false;
    return index;
  }

  /** Goes on with a line, to its end or to that of the chunk. */
  *#lineWith(bytes: Buffer, isWhole: boolean): Generator<ScanEvent> {
    if (this.#isSkipping) return;
    if (this.#pending.exceedsLimitWith(bytes)) {
      this.#isSkipping = true;
      const beginning = this.#pending.takeBeginning(bytes).toString();
      yield this.#record(beginning, 0, tooLarge(this.#start, REST));
    } else if (isWhole) yield* this.#line(this.#pending.take(bytes));
    else this.#pending.append(bytes);
  }

  *#line(bytes: Buffer): Generator<ScanEvent> {
    const text = bytes.toString();
    if (BLANK_LINE.test(text)) return;
    const scanner = new ValueScanner(new LineTracker());
    const stop = scanner.advance(bytes, 0);
    const { status } = scanner;
    if (status !== 'too-deep' && status !== 'too-many') {
      yield this.#record(text, scanner.strings, null);
      return;
    }
    const line = new LineTracker();
    line.enter(bytes);
    const position = { ...line.at(stop - 1), line: this.#start.line };
    const problem = status === 'too-deep' ? tooDeep(position, REST) : tooMany(this.#start, REST);
    yield this.#record(bytes.toString('utf8', 0, stop), 0, problem);
  }

  #record(text: string, strings: number, cut: Problem | null): ScanEvent {
    return { kind: 'record', value: { text, start: this.#start, strings, enclosing: [], cut } };
  }
}
