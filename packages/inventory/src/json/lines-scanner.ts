import type { Position, Problem } from '../finding.ts';
import { BLANK_LINE } from './blank-line.ts';
import { NEWLINE } from './byte-class.ts';
import { tooDeep, tooLarge, tooMany } from './limit-problem.ts';
import { LineTracker } from './line-tracker.ts';
import { PendingText } from './pending-text.ts';
import { parseValue } from './parsed-value.ts';
import type { RawValue, ScanEvent, Scanner } from './scan-event.ts';
import { tally } from './tally.ts';
import { ValueScanner } from './value-scanner.ts';

/** What is not read of a line that is beyond a limit. */
const REST = 'the rest of the line was not read';

/** Cuts JSON Lines into records: one a line, blank lines being none. */
export class LinesScanner implements Scanner {
  readonly what = 'line';
  readonly #lines = new LineTracker();
  readonly #pending = new PendingText();
  #start: Position = { line: 1, column: 1 };
  // Whether the line was told as too large, and its end is waited for.
  #isSkipping = false;

  position(): Position {
    return this.#lines.end();
  }

  *push(bytes: Buffer): Generator<ScanEvent> {
    this.#lines.enter(bytes);
    let from = 0;
    for (;;) {
      const newline = bytes.indexOf(NEWLINE, from);
      const isWhole = newline !== -1;
      yield* this.#lineWith(bytes.subarray(from, isWhole ? newline : bytes.length), isWhole);
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

  /** Goes on with a line, to its end or to that of the chunk. */
  *#lineWith(bytes: Buffer, isWhole: boolean): Generator<ScanEvent> {
    if (this.#isSkipping) return;
    if (this.#pending.exceedsLimitWith(bytes)) {
      this.#isSkipping = true;
      const beginning = this.#pending.takeBeginning(bytes).toString();
      yield { kind: 'record', value: this.#value(beginning, 0, tooLarge(this.#start, REST)) };
    } else if (isWhole) yield* this.#line(this.#pending.take(bytes));
    else this.#pending.append(bytes);
  }

  *#line(bytes: Buffer): Generator<ScanEvent> {
    const text = bytes.toString();
    const parsed = parseValue(text);
    if (parsed !== null) {
      const value = { ...this.#value(text, tally(bytes).strings), parsed };
      yield { kind: 'record', value };
      return;
    }
    if (BLANK_LINE.test(text)) return;
    const scanner = new ValueScanner(new LineTracker());
    const stop = scanner.advance(bytes, 0);
    const { status } = scanner;
    if (status !== 'too-deep' && status !== 'too-many') {
      yield { kind: 'record', value: this.#value(text, scanner.strings) };
      return;
    }
    const line = new LineTracker();
    line.enter(bytes);
    const position = { ...line.at(stop - 1), line: this.#start.line };
    const problem = status === 'too-deep' ? tooDeep(position, REST) : tooMany(this.#start, REST);
    yield { kind: 'record', value: this.#value(bytes.toString('utf8', 0, stop), 0, problem) };
  }

  #value(text: string, strings: number, cut: Problem | null = null): RawValue {
    return { text, start: this.#start, strings, enclosing: [], cut };
  }
}
