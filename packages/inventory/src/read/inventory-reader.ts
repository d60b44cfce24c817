import type { Finding, Position, Problem } from '../finding.ts';
import { parseValue, type RawValue, type RecordRun } from '../json/record-run.ts';
import { ArrayScanner, LinesScanner, type ScanEvent } from '../json/scanners.ts';
import { type EndpointRecord, isEndpointRecord } from '../record.ts';
import { getExcerpt } from '../text.ts';
import {
  describeValue,
  findSyntaxProblem,
  getOwnValue,
  type RecordInspector,
  type InspectedRecord,
  locateProblems,
  type LocatedProblem,
  locateValue,
  type RecordProblems,
} from './check-record.ts';
import {
  gunzip,
  inferFormat,
  type InventoryFormat,
  type InventorySource,
  readChunks,
  readUtf8,
} from './input.ts';
import type { LocatedRecord } from './yaml.ts';

export type ReaderOptions = {
  /** Format of the inventory. Derived from the name of the source by default. */
  format?: InventoryFormat;
  /** Label of the source in findings. Defaults to the path. */
  file?: string;
  inspect?: RecordInspector;
};

type ReaderEvent = ScanEvent | { kind: 'located'; value: LocatedRecord };

/** Splits chunks of whole UTF-8 characters into records. */
type Scanner = {
  readonly unit: 'file' | 'line';
  push(bytes: Buffer): Iterable<ReaderEvent>;
  end(): Iterable<ReaderEvent>;
  position(): Position;
};

const EXCERPT_BYTES = 4096;

const NONE: readonly never[] = [];

/** Reads an inventory in chunks and checks its records. Memory is bounded by one record. */
class InventoryReader {
  records = 0;
  /** Whether the source was read to its end. */
  isComplete = true;
  readonly #source: InventorySource;
  readonly #file: string;
  readonly #format: InventoryFormat;
  readonly #inspect: RecordInspector | undefined;
  #scanner: Scanner;

  constructor(source: InventorySource, options: ReaderOptions) {
    this.#source = source;
    this.#file = getSourceLabel(source, options);
    this.#format = options.format ?? inferFormat(this.#file);
    this.#inspect = options.inspect;
    this.#scanner = this.#format === 'jsonl' ? new LinesScanner() : new ArrayScanner();
  }

  /** Yields the findings of each chunk, until the end of the source or an unrecoverable error. */
  async *read(): AsyncGenerator<Iterable<Finding>> {
    if (this.#format === 'yaml') {
      // Imported on demand, because the YAML parser takes much memory.
      const { YamlScanner } = await import('./yaml.ts');
      this.#scanner = new YamlScanner();
    }
    for await (const piece of readUtf8(gunzip(readChunks(this.#source)))) {
      if (Buffer.isBuffer(piece)) {
        yield this.#check(this.#scanner.push(piece), piece);
      } else {
        const severity = piece.code === 'encoding/bom' ? 'warning' : 'error';
        if (severity === 'error') this.isComplete = false;
        yield [this.#finding({ ...piece, position: this.#scanner.position(), severity })];
      }
      if (!this.isComplete) return;
    }
    yield this.#check(this.#scanner.end());
  }

  *#check(events: Iterable<ReaderEvent>, piece?: Buffer): Generator<Finding> {
    for (const event of events) {
      if (event.kind === 'problem') {
        this.isComplete = false;
        const excerpt = piece && { excerpt: extractExcerpt(piece, event.index) };
        yield this.#finding({ ...excerpt, ...event.problem });
      } else if (event.kind === 'root') yield this.#checkRoot(event.value);
      else if (event.kind === 'run') yield* this.#checkRun(event.run);
      else if (event.kind === 'located') {
        const { value, isRepeating, text, start, locate } = event.value;
        const problems = this.#findProblems(value, isRepeating, () => start);
        if (problems !== null) yield* this.#locate(problems, text, locate());
      } else yield* this.#checkRecord(event.value);
      if (!this.isComplete) return;
    }
  }

  *#checkRun(run: RecordRun): Generator<Finding> {
    for (const record of run.records) {
      const { value, strings, written } = record;
      const position = () => run.positionOf(record);
      const problems = this.#findProblems(value, strings !== written, position);
      if (problems === null) continue;
      const raw = run.rawValueOf(record);
      yield* this.#locate(problems, raw.text, locateValue(raw, this.#scanner.unit));
    }
  }

  *#checkRecord(raw: RawValue): Generator<Finding> {
    const { unit } = this.#scanner;
    const parsed = raw.parsed ?? (raw.cut === null ? parseValue(raw.text) : null);
    if (parsed === null) {
      this.records += 1;
      const problem = findSyntaxProblem(raw, unit);
      // Invalid JSON has no reliable end.
      if (this.#format === 'json' && !problem.code.startsWith('limit/')) this.isComplete = false;
      yield this.#recordFinding({ ...problem, pointer: '' }, null);
      return;
    }
    const isRepeating = parsed.strings !== raw.strings;
    const problems = this.#findProblems(parsed.value, isRepeating, () => raw.start);
    if (problems !== null) yield* this.#locate(problems, raw.text, locateValue(raw, unit));
  }

  /** Counts a record, and checks it with the schema and `inspect`. Returns null if it has no problems. */
  #findProblems(
    value: unknown,
    isRepeating: boolean,
    position: () => Position,
  ): RecordProblems | null {
    const index = this.records;
    this.records += 1;
    const isValid = isEndpointRecord(value);
    const errors = isEndpointRecord.errors ?? NONE;
    const inspected = this.#inspect?.({ value, isValid, index, position: position() }) ?? NONE;
    const isClean = isValid && !isRepeating && inspected.length === 0;
    return isClean ? null : { value, isRepeating, errors, inspected };
  }

  *#locate(...args: Parameters<typeof locateProblems>): Generator<Finding> {
    const id = getOwnValue(args[0].value, 'id');
    for (const problem of locateProblems(...args)) {
      yield this.#recordFinding(problem, typeof id === 'string' ? id : null);
    }
  }

  #checkRoot(raw: RawValue): Finding {
    const parsed = raw.cut === null ? parseValue(raw.text) : null;
    if (parsed === null) {
      this.isComplete = false;
      return this.#finding(findSyntaxProblem(raw, this.#scanner.unit));
    }
    const message = `an inventory must be an array of records; found ${describeValue(parsed.value, raw.text)}`;
    const excerpt = getExcerpt(raw.text, 0);
    return this.#finding({ code: 'schema/type', message, position: raw.start, excerpt });
  }

  /** Creates a finding about the last record that was read. */
  #recordFinding({ pointer, ...problem }: LocatedProblem, recordId: string | null): Finding {
    const recordIndex = this.records - 1;
    const base = this.#format === 'jsonl' ? '' : `/${recordIndex}`;
    return { ...this.#finding(problem), pointer: base + pointer, recordId, recordIndex };
  }

  #finding({ position, code, message, severity = 'error', ...rest }: Problem): Finding {
    const place = { file: this.#file, ...position, pointer: '', recordId: null, recordIndex: null };
    return { ...place, code, message, severity, ...rest };
  }
}

function extractExcerpt(piece: Buffer, index: number) {
  const from = Math.max(0, index - EXCERPT_BYTES);
  const before = piece.subarray(from, index).toString();
  const after = piece.subarray(index, index + EXCERPT_BYTES).toString();
  return getExcerpt(before + after, before.length, { isCutBefore: from > 0, isCutAfter: true });
}

/** Returns the label of a source in findings. */
export function getSourceLabel(
  source: InventorySource,
  { file }: Pick<ReaderOptions, 'file'>,
): string {
  return file ?? (typeof source === 'object' && 'path' in source ? source.path : '<input>');
}

export type ValidateOptions = {
  /** Maximum number of errors before the validation stops. Warnings do not count. */
  maxErrors?: number;
  /** Selects findings to hide. Hidden findings are counted. */
  ignores?: (finding: Finding) => boolean;
} & ReaderOptions;

export type ValidationSummary = {
  records: number;
  /** Whether the source was read to its end. False after invalid JSON or `maxErrors`. */
  isComplete: boolean;
  /** Number of hidden findings, if any. */
  hidden?: number;
  silenced?: number;
};

/**
 * Validates an inventory against `endpoint.schema.json` (Specification 002; Contract 5). Yields findings while it
 * reads, in the order of the source, and returns a summary. Memory does not grow with the source, which may be
 * compressed with gzip. JSON is read up to its first syntax error; JSON Lines continue with the next line.
 * @throws Errors of the source, such as ENOENT, and Z_DATA_ERROR for invalid gzip.
 */
export async function* validateInventory(
  source: InventorySource,
  options: ValidateOptions = {},
): AsyncGenerator<Finding, ValidationSummary, undefined> {
  const { maxErrors = Infinity, ignores } = options;
  const reader = new InventoryReader(source, options);
  let errors = 0;
  let hidden = 0;
  const summarize = (isComplete: boolean) => {
    return { records: reader.records, isComplete, ...(hidden > 0 && { hidden }) };
  };
  for await (const findings of reader.read()) {
    for (const finding of findings) {
      if (ignores?.(finding)) {
        hidden += 1;
        continue;
      }
      yield finding;
      if (finding.severity === 'error') errors += 1;
      if (errors >= maxErrors) return summarize(false);
    }
  }
  return summarize(reader.isComplete);
}

export type PlacedRecord = { value: EndpointRecord } & Omit<InspectedRecord, 'value' | 'isValid'>;

/** Thrown for an invalid inventory, with its first error. */
export class InvalidInventoryError extends Error {
  override name = 'InvalidInventoryError';
  readonly finding: Finding;

  constructor(finding: Finding) {
    const { file, line, column, message } = finding;
    super(`${file}:${line}:${column}: ${message}`);
    this.finding = finding;
  }
}

/**
 * Yields the records of a valid inventory, in bounded memory. Warnings are ignored.
 * @throws InvalidInventoryError at the first error, and errors of the source.
 */
export async function* readRecords(
  source: InventorySource,
  options: Pick<ReaderOptions, 'format' | 'file'> = {},
): AsyncGenerator<PlacedRecord, void, undefined> {
  let read: PlacedRecord[] = [];
  const reader = new InventoryReader(source, {
    ...options,
    inspect({ value, isValid, index, position }) {
      if (isValid) read.push({ value: value as EndpointRecord, index, position });
      return [];
    },
  });
  for await (const findings of reader.read()) {
    for (const finding of findings) {
      if (finding.severity === 'error') throw new InvalidInventoryError(finding);
    }
    yield* read;
    read = [];
  }
}
