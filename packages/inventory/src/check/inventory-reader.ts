import {
  checkRecord,
  type Inspect,
  judge,
  locate,
  problemsIn,
  type RecordCheck,
  syntaxProblemIn,
} from './check-record.ts';
import type { Finding, Problem } from '../finding.ts';
import { formatOf, type InventoryFormat } from '../input/format.ts';
import { gunzip } from '../input/gunzip.ts';
import { readChunks } from '../input/source.ts';
import type { InventorySource } from '../input/source.ts';
import { readUtf8 } from '../input/utf8.ts';
import { ArrayScanner } from '../json/array-scanner.ts';
import { LinesScanner } from '../json/lines-scanner.ts';
import { parseValue } from '../json/parsed-value.ts';
import type { Run } from '../json/run.ts';
import type {
  LocatedEvent,
  LocatedRecord,
  RawValue,
  ScanEvent,
  Scanner,
} from '../json/scan-event.ts';
import { excerptAt, Surroundings } from '../excerpt.ts';
import { describe } from './schema-message.ts';

export type ReaderOptions = {
  /** `json`: one array. `jsonl`: one record a line. Without it the label's or path's name decides. */
  format?: InventoryFormat;
  /** How findings name the source; a path is its own label. */
  file?: string;
  /** Looks at each record as it is read, and says what else is wrong with it. */
  inspect?: Inspect;
};

const NO_BYTES = Buffer.alloc(0);

/** Reads one inventory piece by piece, checks its records, and holds no more than one of them. */
export class InventoryReader {
  /** How many records were read. */
  records = 0;
  /** False when reading stopped before the end. */
  isComplete = true;
  readonly #source: InventorySource;
  readonly #file: string;
  readonly #format: InventoryFormat;
  readonly #inspect: Inspect | undefined;
  #scanner: Scanner;
  readonly #surroundings = new Surroundings();

  constructor(source: InventorySource, options: ReaderOptions) {
    const { format, inspect } = options;
    this.#source = source;
    this.#file = labelOf(source, options);
    this.#format = format ?? formatOf(this.#file);
    this.#inspect = inspect;
    this.#scanner = this.#format === 'jsonl' ? new LinesScanner() : new ArrayScanner();
  }

  /** The findings of each piece of the source, until its end or until it cannot be read on. */
  async *read(): AsyncGenerator<Iterable<Finding>> {
    if (this.#format === 'yaml') {
      // Its parser is as large as all that other inventories need.
      const { YamlScanner } = await import('../yaml/yaml-scanner.ts');
      this.#scanner = new YamlScanner();
    }
    for await (const piece of readUtf8(gunzip(readChunks(this.#source)))) {
      if (Buffer.isBuffer(piece)) {
        yield this.#check(this.#scanner.push(piece), piece);
        this.#surroundings.pass(piece);
      } else {
        const { code, message } = piece;
        const severity = code === 'encoding/bom' ? 'warning' : 'error';
        if (severity === 'error') this.isComplete = false;
        const position = this.#scanner.position();
        // What is no text, or is passed over, cannot be shown.
        const excerpt = code === 'encoding/utf-8' ? this.#excerpt(NO_BYTES, 0) : {};
        yield [this.#finding({ code, message, position, severity, ...excerpt })];
      }
      if (!this.isComplete) return;
    }
    yield this.#check(this.#scanner.end(), NO_BYTES);
  }

  *#check(events: Iterable<ScanEvent | LocatedEvent>, piece: Buffer): Generator<Finding> {
    for (const event of events) {
      if (event.kind === 'problem') {
        this.isComplete = false;
        yield this.#finding({ ...this.#excerpt(piece, event.index), ...event.problem });
      } else if (event.kind === 'root') {
        yield this.#checkRoot(event.value);
      } else if (event.kind === 'run') {
        yield* this.#checkRun(event.run);
      } else if (event.kind === 'located') {
        yield* this.#checkLocated(event.value);
      } else {
        const index = this.#nextIndex();
        const { what } = this.#scanner;
        const check = checkRecord(event.value, { what, index, inspect: this.#inspect });
        if (!check.isPassable && this.#format === 'json') this.isComplete = false;
        yield* this.#findings(check, index);
      }
      if (!this.isComplete) return;
    }
  }

  #excerpt(piece: Buffer, index: number) {
    return { excerpt: this.#surroundings.at(piece, index) };
  }

  *#checkRun(run: Run): Generator<Finding> {
    const inspect = this.#inspect;
    for (const record of run.records) {
      const index = this.#nextIndex();
      const { value, strings, written } = record;
      const inspection = inspect && { inspect, index, position: run.positionOf(record) };
      const judged = judge(value, strings !== written, inspection);
      if (judged === null) continue;
      yield* this.#findings(locate(judged, run.rawValueOf(record), this.#scanner.what), index);
    }
  }

  *#checkLocated({ value, isRepeating, text, start, locate: find }: LocatedRecord) {
    const index = this.#nextIndex();
    const inspect = this.#inspect;
    const judged = judge(value, isRepeating, inspect && { inspect, index, position: start });
    if (judged !== null) yield* this.#findings(problemsIn(judged, text, find()), index);
  }

  #nextIndex(): number {
    this.records += 1;
    return this.records - 1;
  }

  *#findings({ id, problems }: RecordCheck, recordIndex: number): Generator<Finding> {
    const base = this.#format === 'jsonl' ? '' : `/${recordIndex}`;
    for (const { pointer, ...problem } of problems) {
      const place = { pointer: base + pointer, recordId: id, recordIndex };
      yield { ...this.#finding(problem), ...place };
    }
  }

  #checkRoot(raw: RawValue): Finding {
    const parsed = raw.cut === null ? parseValue(raw.text) : null;
    if (parsed === null) {
      this.isComplete = false;
      return this.#finding(syntaxProblemIn(raw, this.#scanner.what));
    }
    const found = describe(parsed.value, raw.text);
    const message = `an inventory must be an array of records; found ${found}`;
    const excerpt = excerptAt(raw.text, 0);
    return this.#finding({ code: 'schema/type', message, position: raw.start, excerpt });
  }

  #finding(problem: Problem): Finding {
    const { code, message, position, severity = 'error', related, excerpt, fix } = problem;
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
      ...(fix && { fix }),
    };
  }
}

/** How findings name a source. */
export function labelOf(source: InventorySource, { file }: Pick<ReaderOptions, 'file'>): string {
  return file ?? (typeof source === 'object' && 'path' in source ? source.path : '<input>');
}
