import { checkRecord, type Inspect, parse, syntaxProblemIn } from './check-record.ts';
import type { Finding, Problem } from './finding.ts';
import { gunzip } from './input/gunzip.ts';
import { readChunks } from './input/source.ts';
import type { InventorySource } from './input/source.ts';
import { readUtf8 } from './input/utf8.ts';
import { ArrayScanner } from './json/array-scanner.ts';
import { LinesScanner } from './json/lines-scanner.ts';
import type { RawValue, ScanEvent } from './json/scan-event.ts';
import { describe } from './schema-message.ts';

export interface ValidateOptions {
  /** `json`: one array. `jsonl`: one record a line. Without it the label's or path's name decides. */
  format?: 'json' | 'jsonl';
  /** How findings name the source; a path is its own label. */
  file?: string;
  /** Stops after so many errors; warnings are not counted. */
  maxErrors?: number;
  /** Looks at each record as it is read, and says what else is wrong with it. */
  inspect?: Inspect;
  /** Findings that are left out, and not counted. */
  ignores?: (finding: Finding) => boolean;
}

/** What a validation that ended tells beside its findings. */
export interface ValidationSummary {
  /** How many records were read. */
  records: number;
  /** False when reading stopped before the end: text that is no JSON, or `maxErrors`. */
  isComplete: boolean;
}

/**
 * Validates an inventory against `endpoint.schema.json` (Specification 002; Contract 5) and yields
 * each finding as soon as it is known, in the order of the source. The summary is the generator's
 * return value. Memory does not grow with the source.
 *
 * A JSON text is read up to its first syntax error; JSON Lines are read on at the next line.
 * Gzip (RFC 1952) is unpacked on the way. Throws what reading the source throws, such as ENOENT for a
 * path, and Z_DATA_ERROR for broken gzip.
 */
export async function* validateInventory(
  source: InventorySource,
  options: ValidateOptions = {},
): AsyncGenerator<Finding, ValidationSummary, undefined> {
  const file = options.file ?? pathOf(source) ?? '<input>';
  const format = options.format ?? (LINES.test(file) ? 'jsonl' : 'json');
  const maxErrors = options.maxErrors ?? Infinity;
  const validation = new Validation(file, format, options.inspect);
  let errors = 0;
  for await (const findings of validation.run(source)) {
    for (const finding of findings) {
      if (options.ignores?.(finding)) continue;
      yield finding;
      if (finding.severity === 'error') errors += 1;
      if (errors >= maxErrors) return { records: validation.records, isComplete: false };
    }
  }
  return { records: validation.records, isComplete: validation.isComplete };
}

/** Names of files with a record a line. */
const LINES = /\.(jsonl|ndjson)(\.gz)?$/i;

class Validation {
  records = 0;
  isComplete = true;
  readonly #file: string;
  readonly #format: 'json' | 'jsonl';
  readonly #inspect: Inspect | undefined;
  readonly #scanner: ArrayScanner | LinesScanner;

  constructor(file: string, format: 'json' | 'jsonl', inspect: Inspect | undefined) {
    this.#file = file;
    this.#format = format;
    this.#inspect = inspect;
    this.#scanner = format === 'json' ? new ArrayScanner() : new LinesScanner();
  }

  /** The findings of each piece of the source, until its end or until it cannot be read on. */
  async *run(source: InventorySource): AsyncGenerator<Iterable<Finding>> {
    for await (const piece of readUtf8(gunzip(readChunks(source)))) {
      if (Buffer.isBuffer(piece)) {
        yield this.#check(this.#scanner.push(piece));
      } else {
        const { code, message } = piece;
        const severity = code === 'encoding/bom' ? 'warning' : 'error';
        if (severity === 'error') this.isComplete = false;
        const position = this.#scanner.position();
        yield [this.#finding({ code, message, position, severity })];
      }
      if (!this.isComplete) return;
    }
    yield this.#check(this.#scanner.end());
  }

  *#check(events: Iterable<ScanEvent>): Generator<Finding> {
    for (const event of events) {
      if (event.kind === 'problem') {
        this.isComplete = false;
        yield this.#finding(event.problem);
      } else if (event.kind === 'root') {
        yield this.#checkRoot(event.value);
      } else {
        yield* this.#checkRecord(event.value);
      }
      if (!this.isComplete) return;
    }
  }

  *#checkRecord(raw: RawValue): Generator<Finding> {
    const recordIndex = this.records;
    this.records += 1;
    const { id, isJson, problems } = checkRecord(raw, {
      what: this.#scanner.what,
      index: recordIndex,
      inspect: this.#inspect,
    });
    if (!isJson && this.#format === 'json') this.isComplete = false;
    const base = this.#format === 'json' ? `/${recordIndex}` : '';
    for (const { pointer, ...problem } of problems) {
      const place = { pointer: base + pointer, recordId: id, recordIndex };
      yield { ...this.#finding(problem), ...place };
    }
  }

  #checkRoot(raw: RawValue): Finding {
    const parsed = parse(raw);
    if (parsed === null) {
      this.isComplete = false;
      return this.#finding(syntaxProblemIn(raw, this.#scanner.what));
    }
    const found = describe(parsed.value, raw.text);
    const message = `an inventory must be an array of records; found ${found}`;
    return this.#finding({ code: 'schema/type', message, position: raw.start });
  }

  #finding(problem: Problem): Finding {
    const { code, message, position, severity = 'error', related, excerpt } = problem;
    return {
      file: this.#file,
      ...position,
      pointer: '',
      recordId: null,
      recordIndex: null,
      code,
      message,
      severity,
      ...(related && { related }),
      ...(excerpt && { excerpt }),
    };
  }
}

function pathOf(source: InventorySource): string | undefined {
  return typeof source === 'object' && 'path' in source ? source.path : undefined;
}
