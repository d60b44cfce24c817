import type { Position, Problem } from '../finding.ts';
import { BYTE_CLASSES, ByteClass, QUOTE } from './byte-class.ts';
import { LineTracker } from './line-tracker.ts';
import { PendingText } from './pending-text.ts';
import { parseRun, Run } from './run.ts';
import type { RawValue, ScanEvent, Scanner } from './scan-event.ts';
import {
  beginsComment,
  NO_COMMENTS,
  shown,
  syntaxProblem,
  truncated,
  unexpected,
} from './syntax-error.ts';
import type { Opened } from './syntax-error.ts';
import { tooDeep, tooLarge, tooMany } from './limit-problem.ts';
import { characterEnd, characterStart, ValueScanner } from './value-scanner.ts';

/**
 * Where the scanner stands between values, with what may come there:
 *
 *     start  [  first  record  after-record  ]  end
 *                        ↑          │
 *                        └── next ──┘  ,
 */
type Place = 'start' | 'first' | 'next' | 'after-record' | 'end';

const EXPECTED: Record<Place, string> = {
  start: 'the "[" that begins the inventory',
  first: 'a record or "]"',
  next: 'a record',
  'after-record': '"," or "]" after the record',
  end: 'nothing more',
};

/** What is not read of a record that is beyond a limit. */
const REST = 'the rest of it was not read';

/** Cuts a JSON array into its items, holding no more than one of them. */
export class ArrayScanner implements Scanner {
  readonly what = 'file';
  readonly #lines = new LineTracker();
  readonly #value = new ValueScanner(this.#lines);
  readonly #pending = new PendingText();
  readonly #enclosing: Opened[] = [];
  #place: Place = 'start';
  // Null between values.
  #valueStart: Position | null = null;
  // Whether the value was told as beyond a limit, and its end is waited for.
  #isSkipping = false;

  position(): Position {
    return this.#lines.end();
  }

  *push(bytes: Buffer): Generator<ScanEvent> {
    this.#lines.enter(bytes);
    let index = 0;
    // Where the last record ended in this chunk; once a run has been tried, nobody asks any more.
    let recordEnd: number | null = null;
    let isRunTried = false;
    while (index < bytes.length) {
      if (this.#valueStart === null) {
        const step = this.#stepBetween(bytes, index);
        if (typeof step !== 'number') {
          yield { kind: 'problem', problem: step, index };
          return;
        }
        index = step;
        if (this.#valueStart !== null && recordEnd !== null && recordEnd > 0 && !isRunTried) {
          isRunTried = true;
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
    if (this.#isSkipping) {
      yield { kind: 'problem', problem: truncated('file', end, this.#enclosing), index: 0 };
    } else if (this.#valueStart !== null) {
      // Outside of the array the end of the file ends a number or word like any other delimiter.
      const isRoot = this.#place === 'start';
      const cut = isRoot ? null : truncated('file', end, this.#enclosing);
      yield this.#event(this.#valueStart, this.#pending.take(), cut);
    } else if (this.#place === 'start') {
      const message = 'the file is empty; an inventory without records is []';
      yield { kind: 'problem', problem: syntaxProblem(message, end, 'json/empty'), index: 0 };
    } else if (this.#place !== 'end') {
      yield { kind: 'problem', problem: truncated('file', end, this.#enclosing), index: 0 };
    }
  }

  /** Takes one byte between values, and gives the next index or what is wrong. */
  #stepBetween(bytes: Buffer, index: number): number | Problem {
    const byteClass = BYTE_CLASSES[bytes[index] ?? 0];
    if (byteClass === ByteClass.space) return index + 1;
    if (byteClass === ByteClass.newline) {
      this.#lines.newLine(index + 1);
      return index + 1;
    }

    const position = this.#lines.at(index);
    const character = bytes.toString('utf8', index, characterEnd(bytes, index + 1));
    switch (`${this.#place} ${character}`) {
      case 'start [':
        this.#enclosing.push({ kind: 'array', position });
        this.#place = 'first';
        return index + 1;
      case 'first ]':
      case 'after-record ]':
        this.#place = 'end';
        return index + 1;
      case 'after-record ,':
        this.#place = 'next';
        return index + 1;
      case 'next ]':
        return syntaxProblem('a comma stands before this "]"; remove the comma', position);
      default:
    }
    if (this.#place === 'end') return this.#afterTheEnd(character, position);
    if (this.#place === 'after-record' || !beginsValue(character, byteClass)) {
      return unexpected(character, EXPECTED[this.#place], position);
    }
    this.#valueStart = position;
    this.#value.reset();
    return index;
  }

  /**
   * Gives the records that begin here, up to the last place of the chunk that looks as what is between the
   * record before and this one, with this one's first key: objects in records stand as near to one another.
   * Returns the index after them, or the same one when they have to be read one by one.
   */
  *#run(bytes: Buffer, recordEnd: number, from: number): Generator<ScanEvent, number> {
    const separator = bytes.subarray(recordEnd - 1, firstKeyEnd(bytes, from));
    const end = bytes.lastIndexOf(separator) + 1;
    if (end <= from) return from;
    const run = bytes.subarray(from, end);
    const records = parseRun(run, separator, from - recordEnd + 1);
    if (records === null) return from;
    const parsed = new Run(records, {
      bytes,
      from,
      lines: this.#lines,
      enclosing: this.#enclosing,
    });
    yield { kind: 'run', run: parsed };
    parsed.leave();
    this.#valueStart = null;
    this.#place = 'after-record';
    return end;
  }

  #afterTheEnd(character: string, position: Position): Problem {
    if (beginsComment(character)) return syntaxProblem(NO_COMMENTS, position);
    const isArray = this.#enclosing.length > 0;
    const what = isArray ? 'the array of records' : 'the first value';
    const advice = isArray
      ? 'remove it'
      : 'put records into one array, or one a line into a .jsonl (--input-format jsonl)';
    const message = `${what} has ended, but ${shown(character)} follows; ${advice}`;
    return syntaxProblem(message, position, 'json/trailing-data');
  }

  /** Keeps what belongs to a value that goes on, or gives the value that ended or is beyond a limit. */
  *#takeValue(start: Position, bytes: Buffer, index: number): Generator<ScanEvent> {
    const { status } = this.#value;
    if (this.#isSkipping) {
      yield* this.#goOn(bytes, index);
    } else if (this.#pending.exceedsLimitWith(bytes)) {
      yield this.#event(start, this.#pending.takeBeginning(bytes), tooLarge(start, REST));
      yield* this.#goOn(bytes, index);
    } else if (status === 'too-deep' || status === 'too-many') {
      const problem =
        status === 'too-many' ? tooMany(start, REST) : tooDeep(this.#lines.at(index - 1), REST);
      yield this.#event(start, this.#pending.take(bytes), problem);
      yield* this.#goOn(bytes, index);
    } else if (status === 'open') {
      this.#pending.append(bytes);
    } else {
      yield this.#event(start, this.#pending.take(bytes), null);
      this.#endValue();
    }
  }

  /** Goes on to the end of a value that is beyond a limit; what is not JSON on the way ends the reading. */
  *#goOn(bytes: Buffer, index: number): Generator<ScanEvent> {
    const { status } = this.#value;
    this.#isSkipping = status !== 'whole';
    if (status === 'whole') this.#endValue();
    else if (status === 'too-deep' || status === 'too-many') this.#value.skip();
    else if (status === 'broken') {
      const length = bytes.length - characterStart(bytes, bytes.length - 1);
      const character = bytes.toString('utf8', bytes.length - length);
      const position = this.#lines.at(index - length);
      const problem = unexpected(character, 'the rest of a record that is too large', position);
      yield { kind: 'problem', problem, index: index - length };
    }
  }

  #endValue(): void {
    this.#valueStart = null;
    this.#place = this.#place === 'start' ? 'end' : 'after-record';
  }

  #event(start: Position, bytes: Buffer, cut: Problem | null): ScanEvent {
    const { strings } = this.#value;
    const text = bytes.toString();
    const value: RawValue = { text, start, strings, enclosing: this.#enclosing, cut };
    return { kind: this.#place === 'start' ? 'root' : 'record', value };
  }
}

/** The index after the first key of the record that begins at `from`, or of what else is quoted next. */
function firstKeyEnd(bytes: Buffer, from: number): number {
  const opening = bytes.indexOf(QUOTE, from);
  return opening === -1 ? from + 1 : Math.max(bytes.indexOf(QUOTE, opening + 1), from) + 1;
}

/** Whether a value begins here, or a word that the parser can say more about. */
function beginsValue(character: string, byteClass: number | undefined): boolean {
  return (
    character === '{' ||
    character === '[' ||
    byteClass === ByteClass.word ||
    byteClass === ByteClass.quote
  );
}
