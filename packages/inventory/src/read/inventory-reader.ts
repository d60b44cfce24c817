import type { Finding, Position, Problem } from '../finding.ts';
import { parseWithPositions } from '../json/parser.ts';
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

type ReaderOptions = {
  /** Inventory format. Defaults to the format that the file name implies. */
  format?: InventoryFormat;
  /** Source label in findings. Defaults to the path, or to `<input>` without one. */
  file?: string;
  inspect?: RecordInspector;
};

type ReaderEvent = ScanEvent | { kind: 'located'; value: LocatedRecord };

/** Splits chunks of complete UTF-8 characters into records. */
type Scanner = {
  readonly unit: 'file' | 'line';
  push(bytes: Buffer): Iterable<ReaderEvent>;
  end(): Iterable<ReaderEvent>;
  getPosition(): Position;
};

const EXCERPT_BYTES = 4096;

const EMPTY_LIST: readonly never[] = [];

/** Reads an inventory in chunks and checks its records. Memory use is bounded by one record, or the size of YAML. */
class InventoryReader {
  records = 0;
  /** False after an error that ends the reading early. */
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
      // Imported on demand, because the YAML parser uses a lot of memory.
      const { YamlScanner } = await import('./yaml.ts');
      this.#scanner = new YamlScanner();
    }
    for await (const piece of readUtf8(gunzip(readChunks(this.#source)))) {
      if (Buffer.isBuffer(piece)) {
        yield this.#checkEvents(this.#scanner.push(piece), piece);
      } else {
        const severity = piece.code === 'encoding/bom' ? 'warning' : 'error';
        if (severity === 'error') this.isComplete = false;
        yield [this.#createFinding({ ...piece, position: this.#scanner.getPosition(), severity })];
      }
      if (!this.isComplete) return;
    }
    yield this.#checkEvents(this.#scanner.end());
  }

  *#checkEvents(events: Iterable<ReaderEvent>, piece?: Buffer): Generator<Finding> {
    for (const event of events) {
      if (event.kind === 'problem') {
        this.isComplete = false;
        const excerpt = piece && { excerpt: extractExcerpt(piece, event.index) };
        yield this.#createFinding({ ...excerpt, ...event.problem });
      } else if (event.kind === 'root') yield this.#checkRoot(event.value);
      else if (event.kind === 'run') yield* this.#checkRun(event.run);
      else if (event.kind === 'located') {
        const { value, hasRepeatedKeys, text, start, locate } = event.value;
        const problems = this.#findProblems(value, hasRepeatedKeys, () => start);
        if (problems !== null) yield* this.#locateFindings(problems, text, locate());
      } else yield* this.#checkRecord(event.value);
      if (!this.isComplete) return;
    }
  }

  *#checkRun(run: RecordRun): Generator<Finding> {
    for (const record of run.records) {
      const { value, stringCount, writtenStringCount } = record;
      const getPosition = () => run.getPosition(record);
      const problems = this.#findProblems(value, stringCount !== writtenStringCount, getPosition);
      if (problems === null) continue;
      const rawValue = run.getRawValue(record);
      const locatedValue = parseWithPositions(rawValue, this.#scanner.unit);
      yield* this.#locateFindings(problems, rawValue.text, locatedValue);
    }
  }

  *#checkRecord(rawValue: RawValue): Generator<Finding> {
    const { unit } = this.#scanner;
    const parsedValue =
      rawValue.parsedValue ?? (rawValue.truncation === null ? parseValue(rawValue.text) : null);
    if (parsedValue === null) {
      this.records += 1;
      const problem = findSyntaxProblem(rawValue, unit);
      // Invalid JSON has no reliable end.
      if (this.#format === 'json' && !problem.code.startsWith('limit/')) this.isComplete = false;
      yield this.#createRecordFinding({ ...problem, pointer: '' }, null);
      return;
    }
    const hasRepeatedKeys = parsedValue.stringCount !== rawValue.stringCount;
    const problems = this.#findProblems(parsedValue.value, hasRepeatedKeys, () => rawValue.start);
    if (problems !== null)
      yield* this.#locateFindings(problems, rawValue.text, parseWithPositions(rawValue, unit));
  }

  /** Counts a record, and checks it with the schema and `inspect`. Returns null if it has no problems. */
  #findProblems(
    value: unknown,
    hasRepeatedKeys: boolean,
    getPosition: () => Position,
  ): RecordProblems | null {
    const index = this.records;
    this.records += 1;
    const isValid = isEndpointRecord(value);
    const errors = isEndpointRecord.errors ?? EMPTY_LIST;
    const propertyProblems =
      this.#inspect?.({ value, isValid, index, position: getPosition() }) ?? EMPTY_LIST;
    const hasNoProblems = isValid && !hasRepeatedKeys && propertyProblems.length === 0;
    return hasNoProblems ? null : { value, hasRepeatedKeys, errors, propertyProblems };
  }

  *#locateFindings(...args: Parameters<typeof locateProblems>): Generator<Finding> {
    const id = getOwnValue(args[0].value, 'id');
    for (const problem of locateProblems(...args)) {
      yield this.#createRecordFinding(problem, typeof id === 'string' ? id : null);
    }
  }

  #checkRoot(rawValue: RawValue): Finding {
    const parsedValue = rawValue.truncation === null ? parseValue(rawValue.text) : null;
    if (parsedValue === null) {
      this.isComplete = false;
      return this.#createFinding(findSyntaxProblem(rawValue, this.#scanner.unit));
    }
    const message = `an inventory must be an array of records; found ${describeValue(parsedValue.value, rawValue.text)}`;
    const excerpt = getExcerpt(rawValue.text, 0);
    return this.#createFinding({ code: 'schema/type', message, position: rawValue.start, excerpt });
  }

  /** Creates a finding about the last record that was read. */
  #createRecordFinding({ pointer, ...problem }: LocatedProblem, recordId: string | null): Finding {
    const recordIndex = this.records - 1;
    const recordPointer = this.#format === 'jsonl' ? '' : `/${recordIndex}`;
    return {
      ...this.#createFinding(problem),
      pointer: recordPointer + pointer,
      recordId,
      recordIndex,
    };
  }

  #createFinding({ position, code, message, severity = 'error', ...details }: Problem): Finding {
    const location = {
      file: this.#file,
      ...position,
      pointer: '',
      recordId: null,
      recordIndex: null,
    };
    return { ...location, code, message, severity, ...details };
  }
}

function extractExcerpt(piece: Buffer, index: number) {
  const excerptStart = Math.max(0, index - EXCERPT_BYTES);
  const before = piece.subarray(excerptStart, index).toString();
  const after = piece.subarray(index, index + EXCERPT_BYTES).toString();
  return getExcerpt(before + after, before.length, {
    isTruncatedBefore: excerptStart > 0,
    isTruncatedAfter: true,
  });
}

/** Returns the source label for findings. */
export function getSourceLabel(
  source: InventorySource,
  { file }: Pick<ReaderOptions, 'file'>,
): string {
  return file ?? (typeof source === 'object' && 'path' in source ? source.path : '<input>');
}

export type ValidateOptions = {
  /** Maximum number of errors before the validation stops. Warnings do not count. */
  maxErrors?: number;
  /** Returns whether to hide a finding. The summary counts hidden findings. */
  ignores?: (finding: Finding) => boolean;
} & ReaderOptions;

export type ValidationSummary = {
  records: number;
  /** Whether the source was read to its end. False after `maxErrors` and after unrecoverable errors. */
  isComplete: boolean;
  /** Number of hidden findings, if any. */
  hidden?: number;
  silenced?: number;
};

/**
 * Validates an inventory against `endpoint.schema.json` (Specification 002; Contract 5). Yields findings while it
 * reads, in the order of the source, and returns a summary. The source may be compressed with gzip. Memory does not
 * grow with it, but YAML is read whole, up to a size limit. JSON is read up to its first syntax error; JSON Lines
 * continue with the next line.
 * @throws Source errors, such as ENOENT, and zlib errors, such as Z_DATA_ERROR, for invalid gzip.
 */
export async function* validateInventory(
  source: InventorySource,
  options: ValidateOptions = {},
): AsyncGenerator<Finding, ValidationSummary, undefined> {
  const { maxErrors = Infinity, ignores } = options;
  const reader = new InventoryReader(source, options);
  let errorCount = 0;
  let hiddenCount = 0;
  const summarize = (isComplete: boolean) => {
    return { records: reader.records, isComplete, ...(hiddenCount > 0 && { hidden: hiddenCount }) };
  };
  for await (const findings of reader.read()) {
    for (const finding of findings) {
      if (ignores?.(finding)) {
        hiddenCount += 1;
        continue;
      }
      yield finding;
      if (finding.severity === 'error') errorCount += 1;
      if (errorCount >= maxErrors) return summarize(false);
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
 * Yields the records of a valid inventory, in bounded memory. Ignores warnings.
 * @throws InvalidInventoryError at the first error, and source errors.
 */
export async function* readRecords(
  source: InventorySource,
  options: Pick<ReaderOptions, 'format' | 'file'> = {},
): AsyncGenerator<PlacedRecord, void, undefined> {
  let validRecords: PlacedRecord[] = [];
  const reader = new InventoryReader(source, {
    ...options,
    inspect({ value, isValid, index, position }) {
      if (isValid) validRecords.push({ value: value as EndpointRecord, index, position });
      return [];
    },
  });
  for await (const findings of reader.read()) {
    for (const finding of findings) {
      if (finding.severity === 'error') throw new InvalidInventoryError(finding);
    }
    yield* validRecords;
    validRecords = [];
  }
}
