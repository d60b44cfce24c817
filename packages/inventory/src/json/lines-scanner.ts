import { MAX_DEPTH } from '../limits.ts';
import type { Position } from '../finding.ts';
import { LineTracker } from './line-tracker.ts';
import { PendingText, tooLarge } from './pending-text.ts';
import type { ScanEvent, Scanner, TakeRun } from './scan-event.ts';
import { tally } from './tally.ts';
import { ValueScanner } from './value-scanner.ts';

const NEWLINE = 0x0a;
const BLANK = /^[ \t\r]*$/;

/** Cuts JSON Lines into records: one a line, blank lines being none. */
export class LinesScanner implements Scanner {
  readonly what = 'line';
  readonly #lines = new LineTracker();
  readonly #pending = new PendingText();
  readonly #takeRun: TakeRun | undefined;
  #start: Position = { line: 1, column: 1 };

  constructor(takeRun?: TakeRun) {
    this.#takeRun = takeRun;
  }

  position(): Position {
    return this.#lines.end();
  }

  *push(bytes: Buffer): Generator<ScanEvent> {
    this.#lines.enter(bytes);
    let from = 0;
    let isRunTried = false;
    for (;;) {
      if (!isRunTried && this.#pending.isEmpty) {
        isRunTried = true;
        from = this.#passRun(bytes, from);
      }
      const newline = bytes.indexOf(NEWLINE, from);
      if (newline === -1) break;
      const rest = bytes.subarray(from, newline);
      if (this.#pending.exceedsLimitWith(rest)) yield this.#tooLarge();
      yield* this.#line(this.#pending.take(rest));
      from = this.#beginLine(newline + 1, 1);
    }
    const rest = bytes.subarray(from);
    if (this.#pending.exceedsLimitWith(rest)) yield this.#tooLarge();
    this.#pending.append(rest);
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
    return index;
  }

  #tooLarge(): ScanEvent {
    return { kind: 'problem', problem: tooLarge(this.#start) };
  }

  *#line(bytes: Buffer): Generator<ScanEvent> {
    const text = bytes.toString();
    if (BLANK.test(text)) return;
    const start = this.#start;
    const scanner = new ValueScanner(new LineTracker());
    scanner.advance(bytes, 0);
    if (scanner.status === 'too-deep') {
      const message = `values are nested more than ${MAX_DEPTH} levels deep on this line`;
      yield { kind: 'problem', problem: { code: 'limit/depth', message, position: start } };
      return;
    }
    const { strings } = scanner;
    yield { kind: 'record', value: { text, start, strings, enclosing: [], cut: null } };
  }
}
