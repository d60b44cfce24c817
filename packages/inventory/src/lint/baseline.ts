import { dirname, relative, sep } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { UsageError } from '../command/command.ts';
import type { Finding } from '../finding.ts';
import { JsonTextError, parseJsonText } from '../json/parser.ts';

/** A known finding, without its line, which changes with every edit. */
type Entry = {
  /** The path from the folder of the baseline, with `/`. */
  file: string;
  code: string;
  /** The id of the record; its index when it has none. */
  record: string | number;
  /** The pointer from the record. */
  pointer: string;
  /** The number of equal findings; one by default. */
  count?: number;
};

const isBaseline = new Ajv2020().compile<{ findings: Entry[] }>({
  type: 'object',
  required: ['findings'],
  properties: {
    findings: {
      type: 'array',
      items: {
        type: 'object',
        required: ['file', 'code', 'record', 'pointer'],
        properties: {
          file: { type: 'string' },
          code: { type: 'string' },
          record: { anyOf: [{ type: 'string' }, { type: 'integer' }] },
          pointer: { type: 'string' },
          count: { type: 'integer', minimum: 1 },
        },
      },
    },
  },
});

/** Known findings, which are not reported again. */
export class Baseline {
  readonly #folder: string;
  readonly #entries = new Map<string, Entry>();
  readonly #matched = new Map<string, number>();

  /** @param folder The folder of its file. */
  constructor(folder: string, entries: readonly Entry[] = []) {
    this.#folder = folder;
    for (const entry of entries) {
      if (isSuppressible(entry.code)) this.#entries.set(createKey(entry), entry);
    }
  }

  get size(): number {
    return this.#entries.values().reduce((sum, { count = 1 }) => sum + count, 0);
  }

  /** Returns the number of known findings of files that were not found any more. */
  countStale(files: readonly string[]): number {
    const names = new Set(files.map((file) => this.#nameOf(file)));
    let gone = 0;
    for (const [key, { file, count = 1 }] of this.#entries) {
      if (names.has(file)) gone += Math.max(0, count - (this.#matched.get(key) ?? 0));
    }
    return gone;
  }

  /** Tells whether a finding is known; more equal findings than were added are new. */
  has(finding: Finding): boolean {
    const key = createKey(this.#entryOf(finding));
    const entry = this.#entries.get(key);
    if (entry === undefined || finding.recordIndex === null) return false;
    const matched = (this.#matched.get(key) ?? 0) + 1;
    this.#matched.set(key, matched);
    return matched <= (entry.count ?? 1);
  }

  /** Adds a finding; returns false when it cannot be suppressed, as errors of JSON and of the schema. */
  add(finding: Finding): boolean {
    if (finding.recordIndex === null || !isSuppressible(finding.code)) return false;
    const entry = this.#entryOf(finding);
    const key = createKey(entry);
    const known = this.#entries.get(key);
    this.#entries.set(key, known ? { ...entry, count: (known.count ?? 1) + 1 } : entry);
    return true;
  }

  /** Replaces the findings of files by the findings of another baseline. */
  replace(files: readonly string[], other: Baseline): void {
    const names = new Set(files.map((file) => this.#nameOf(file)));
    for (const [key, { file }] of this.#entries) if (names.has(file)) this.#entries.delete(key);
    for (const [key, entry] of other.#entries) this.#entries.set(key, entry);
  }

  /** Returns the text of the file, sorted so that changes to it are small. */
  toString(): string {
    const lines = [...this.#entries]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([, entry]) => `\n    ${JSON.stringify(entry)}`);
    return `{\n  "findings": [${lines.join(',')}${lines.length === 0 ? '' : '\n  '}]\n}\n`;
  }

  #entryOf({ file, code, recordId, recordIndex, pointer }: Finding): Entry {
    const base = `/${recordIndex}`;
    const isInRecord = pointer === base || pointer.startsWith(`${base}/`);
    return {
      file: this.#nameOf(file),
      code,
      record: recordId ?? recordIndex ?? -1,
      pointer: isInRecord ? pointer.slice(base.length) : pointer,
    };
  }

  #nameOf(file: string): string {
    if (file === '<stdin>') return file;
    return relative(this.#folder, file).split(sep).join('/');
  }
}

/**
 * Parses a baseline that `toString` wrote.
 * @param file Its path.
 * @throws UsageError for a text that is no baseline.
 */
export function parseBaseline(text: string, file: string): Baseline {
  try {
    const value = parseJsonText(text);
    if (isBaseline(value)) return new Baseline(dirname(file), value.findings);
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    const message = `${file}:${error.message}; correct it, or remove it and create a new one`;
    throw new UsageError(message, { cause: error });
  }
  throw new UsageError(
    `${file} is no baseline; name another FILE, or remove it and create one with --update-baseline`,
  );
}

function isSuppressible(code: string): boolean {
  return code.startsWith('lint/') || code === 'json/duplicate-key';
}

function createKey({ file, code, record, pointer }: Entry): string {
  return JSON.stringify([file, code, record, pointer]);
}
