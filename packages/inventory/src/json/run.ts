import type { Position } from '../finding.ts';
import type { LineTracker } from './line-tracker.ts';
import { countParts, type ParsedValue } from './parsed-value.ts';
import type { RawValue } from './scan-event.ts';
import type { Opened } from './syntax-error.ts';
import { tally } from './tally.ts';

/** A record of a run: its value, and its place in the bytes of the run. */
type RunRecord = ParsedValue & {
  from: number;
  end: number;
  /** Where the next record begins, or the run ends. */
  next: number;
  /** How many strings are written in it, keys included, repeated ones too. */
  written: number;
  /** How many lines end before the next record. */
  newlines: number;
};

/** Where a run stands: in a chunk, from an index on. */
type Place = { bytes: Buffer; from: number; lines: LineTracker; enclosing: readonly Opened[] };

/** Records that were parsed at once. Their positions and texts are looked for when they are asked for, in order. */
export class Run {
  readonly records: readonly RunRecord[];
  readonly #place: Place;
  /** The index of the record up to which lines are counted. */
  #counted = 0;

  constructor(records: readonly RunRecord[], place: Place) {
    this.records = records;
    this.#place = place;
  }

  /** The position at which a record begins. */
  positionOf(record: RunRecord): Position {
    const { lines, from } = this.#place;
    this.#countTo(from + record.from);
    return lines.at(from + record.from);
  }

  /** A record as one that was read alone. */
  rawValueOf(record: RunRecord): RawValue {
    const { bytes, from, enclosing } = this.#place;
    const { value, strings, written } = record;
    return {
      text: bytes.toString('utf8', from + record.from, from + record.end),
      start: this.positionOf(record),
      strings: written,
      enclosing,
      cut: null,
      parsed: { value, strings },
    };
  }

  /** All records as ones that were read alone. */
  *rawValues(): Generator<RawValue> {
    for (const record of this.records) yield this.rawValueOf(record);
  }

  /** Counts the lines up to the end of the run. */
  leave(): void {
    this.#countTo(this.#place.from + (this.records.at(-1)?.next ?? 0));
  }

  #countTo(index: number): void {
    const { lines, from } = this.#place;
    let newlines = 0;
    for (
      let record = this.records[this.#counted];
      record !== undefined && from + record.next <= index;
      record = this.records[this.#counted]
    ) {
      newlines += record.newlines;
      this.#counted += 1;
    }
    lines.skipTo(index, newlines);
  }
}

/** The end of a record, and the beginning of the next one with a key of word characters. */
const SEPARATOR = /^\}\s*,\s*\{\s*"(\w+)"$/;

/**
 * Parses the records of an array at once where they have the same text between them
 * (docs/adr/0016-runs-of-records.md).
 * @param run Records with commas between them.
 * @param separator The text from the last byte of a record to the first key of the next one.
 * @param gap How many bytes before the next record this text begins.
 * @returns Null when the text is no JSON, a record is beyond a limit, or the borders between records are not certain.
 */
export function parseRun(run: Buffer, separator: Buffer, gap: number): RunRecord[] | null {
  const [, key] = SEPARATOR.exec(separator.toString('latin1')) ?? [];
  if (key === undefined) return null;
  let values: unknown[];
  try {
    values = JSON.parse(`[${run.toString()}]`);
  } catch {
    return null;
  }
  const records: RunRecord[] = [];
  let from = 0;
  let kept = 0;
  for (const value of values) {
    const at = run.indexOf(separator, from);
    const isLast = records.length + 1 === values.length;
    const parts = countParts(value);
    // In JSON, this text is a border of the run, or stands between objects of a list within a record.
    const isCertain = (at === -1) === isLast && parts !== null && !hasObjectWith(key, value, parts);
    if (!isCertain) return null;
    const { strings } = parts;
    const [end, next] = isLast ? [run.length, run.length] : [at + 1, at + gap];
    records.push({ value, strings, written: strings, from, end, next, newlines: 0 });
    kept += strings;
    from = next;
  }
  count(run, records, kept, tally(separator).newlines);
  return records;
}

/**
 * Counts the strings and lines of each record of a run; at once, where no key is repeated and no line ends within a
 * record.
 * @param kept How many strings the values have.
 * @param between How many lines end between two records.
 */
function count(run: Buffer, records: RunRecord[], kept: number, between: number): void {
  const { strings, newlines } = tally(run);
  const isPlain = strings === kept && newlines === between * (records.length - 1);
  for (const record of records) {
    if (isPlain) record.newlines = record.next === run.length ? 0 : between;
    else {
      const { strings: written, newlines: within } = tally(run.subarray(record.from, record.next));
      record.written = written;
      record.newlines = within;
    }
  }
}

/** Whether an object within a record has a key. */
function hasObjectWith(key: string, record: unknown, { containers }: { containers: number }) {
  return containers > 1 && Object.values(record ?? {}).some((part) => hasKey(key, part));
}

function hasKey(key: string, value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (!Array.isArray(value) && Object.hasOwn(value, key)) return true;
  return Object.values(value).some((part) => hasKey(key, part));
}
