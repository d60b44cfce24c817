import type { Position, Problem } from '../finding.ts';
import { MAX_DEPTH, MAX_RECORD_PARTS } from '../limits.ts';
import { countStrings, type LineTracker } from './scan.ts';
import type { OpenDelimiter } from './syntax-error.ts';

/** Parsed value with its number of strings, including keys. */
type ParsedValue = { value: unknown; stringCount: number };

/** Text of a value found by a scanner. */
export type RawValue = {
  text: string;
  /** Start position of the text in its file. */
  start: Position;
  /** Number of strings in the text, including keys and repeated keys. */
  stringCount: number;
  /** Open brackets around the value. */
  enclosingDelimiters: readonly OpenDelimiter[];
  /** Reason why the text is incomplete. Null if it is complete. */
  truncation: Problem | null;
  /** Parsed value, if the scanner parsed it and it is within the limits. */
  parsedValue?: ParsedValue;
};

/** Parses JSON text. Returns null if the text is invalid or exceeds a limit. */
export function parseValue(text: string): ParsedValue | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const partCounts = countParts(value);
  return partCounts && { value, stringCount: partCounts.stringCount };
}

type PartCounts = { stringCount: number; containerCount: number };

/** Counts the parts of a value. Returns null if they exceed a limit. */
function countParts(value: unknown): PartCounts | null {
  const partCounts = { stringCount: 0, containerCount: 0 };
  addParts(value, partCounts, 1);
  return partCounts.stringCount + partCounts.containerCount <= MAX_RECORD_PARTS ? partCounts : null;
}

function addParts(value: unknown, partCounts: PartCounts, depth: number): void {
  if (typeof value === 'string') partCounts.stringCount += 1;
  if (typeof value !== 'object' || value === null) return;
  partCounts.containerCount += 1;
  if (depth > MAX_DEPTH) partCounts.stringCount = NaN;
  else if (Array.isArray(value))
    for (const element of value) addParts(element, partCounts, depth + 1);
  else {
    // Parsed objects inherit no enumerable properties, and `for…in` is the fastest iteration.
    for (const key in value) {
      partCounts.stringCount += 1;
      addParts(value[key as keyof typeof value], partCounts, depth + 1);
    }
  }
}

/** Record with its byte range in a run. */
type RunRecord = ParsedValue & {
  from: number;
  end: number;
  /** Start of the next record, or the end of the run. */
  nextStart: number;
  /** Number of strings in the text, including repeated keys. */
  writtenStringCount: number;
  newlineCount: number;
};

/** Chunk that contains a run, with the offset of the run's first record. */
type RunContext = {
  bytes: Buffer;
  from: number;
  lines: LineTracker;
  enclosingDelimiters: readonly OpenDelimiter[];
};

/** Records that were parsed together. Callers request positions and text in record order. */
export class RecordRun {
  readonly records: readonly RunRecord[];
  readonly #context: RunContext;
  #countedRecords = 0;

  constructor(records: readonly RunRecord[], context: RunContext) {
    this.records = records;
    this.#context = context;
  }

  getPosition(record: RunRecord): Position {
    const index = this.#context.from + record.from;
    this.#countLinesTo(index);
    return this.#context.lines.getPosition(index);
  }

  getRawValue(record: RunRecord): RawValue {
    const { bytes, from, enclosingDelimiters } = this.#context;
    const { value, stringCount, writtenStringCount } = record;
    return {
      text: bytes.toString('utf8', from + record.from, from + record.end),
      start: this.getPosition(record),
      stringCount: writtenStringCount,
      enclosingDelimiters,
      truncation: null,
      parsedValue: { value, stringCount },
    };
  }

  *getRawValues(): Generator<RawValue> {
    for (const record of this.records) yield this.getRawValue(record);
  }

  /** Advances the line tracker to the end of the run. */
  leaveChunk(): void {
    this.#countLinesTo(this.#context.from + (this.records.at(-1)?.nextStart ?? 0));
  }

  #countLinesTo(index: number): void {
    let newlineCount = 0;
    for (; this.#countedRecords < this.records.length; this.#countedRecords += 1) {
      const record = this.records[this.#countedRecords];
      if (record === undefined || this.#context.from + record.nextStart > index) break;
      newlineCount += record.newlineCount;
    }
    this.#context.lines.skipTo(index, newlineCount);
  }
}

/** Text from the closing brace of a record to the first key of the next record. The key has only word characters. */
const SEPARATOR_PATTERN = /^\}\s*,\s*\{\s*"(\w+)"$/;

/**
 * Parses records of an array together if the same text separates them (docs/adr/0016-parsing-inventories.md).
 * @param run Records with commas between them.
 * @param separator The text from the last byte of a record through the first key of the next one.
 * @param gapLength Length of the separator before the next record, in bytes.
 * @returns The records, or null if the text is invalid, a record exceeds a limit, or the boundaries are ambiguous.
 */
export function parseRun(run: Buffer, separator: Buffer, gapLength: number): RunRecord[] | null {
  const [, key] = SEPARATOR_PATTERN.exec(separator.toString('latin1')) ?? [];
  if (key === undefined) return null;
  let values: unknown[];
  try {
    values = JSON.parse(`[${run.toString()}]`);
  } catch {
    return null;
  }
  const records: RunRecord[] = [];
  let recordStart = 0;
  let totalStringCount = 0;
  for (const value of values) {
    const separatorIndex = run.indexOf(separator, recordStart);
    const isLast = records.length + 1 === values.length;
    const partCounts = countParts(value);
    if (partCounts === null || (separatorIndex === -1) !== isLast) return null;
    // The separator may also occur between objects of a list within a record.
    const isFlat = partCounts.containerCount === 1;
    if (!isFlat && Object.values(value ?? {}).some((part) => hasKey(key, part))) return null;
    const { stringCount } = partCounts;
    const [end, nextStart] = isLast
      ? [run.length, run.length]
      : [separatorIndex + 1, separatorIndex + gapLength];
    records.push({
      value,
      stringCount,
      writtenStringCount: stringCount,
      from: recordStart,
      end,
      nextStart,
      newlineCount: 0,
    });
    totalStringCount += stringCount;
    recordStart = nextStart;
  }
  countText(run, records, totalStringCount, countStrings(separator).newlineCount);
  return records;
}

/**
 * Sets `writtenStringCount` and `newlineCount`. Needs one pass if no key is repeated and no record contains newlines.
 */
function countText(
  run: Buffer,
  records: RunRecord[],
  totalStringCount: number,
  separatorNewlineCount: number,
): void {
  const { stringCount, newlineCount } = countStrings(run);
  const hasUniformNewlines =
    stringCount === totalStringCount &&
    newlineCount === separatorNewlineCount * (records.length - 1);
  for (const record of records) {
    if (hasUniformNewlines)
      record.newlineCount = record.nextStart === run.length ? 0 : separatorNewlineCount;
    else {
      const counts = countStrings(run.subarray(record.from, record.nextStart));
      record.writtenStringCount = counts.stringCount;
      record.newlineCount = counts.newlineCount;
    }
  }
}

function hasKey(key: string, value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (!Array.isArray(value) && Object.hasOwn(value, key)) return true;
  return Object.values(value).some((part) => hasKey(key, part));
}
