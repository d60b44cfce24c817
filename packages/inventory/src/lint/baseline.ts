import { dirname, relative, sep } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { Finding } from '../finding.ts';
import { JsonTextError, parseJsonText } from '../json/parser.ts';
import { ConfigError } from './lint.ts';

/** Known finding, without its line, because each edit may change the line. */
type BaselineEntry = {
  /** Path relative to the folder of the baseline, with `/` as separator, or `<stdin>`. */
  file: string;
  code: string;
  /** ID of the record, or its index if it has no ID. */
  record: string | number;
  /** JSON pointer within the record. */
  pointer: string;
  /** Number of identical findings. Defaults to 1. */
  count?: number;
};

const isBaseline = new Ajv2020().compile<{ findings: BaselineEntry[] }>({
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

/** Set of known findings, which are not reported again. */
export class Baseline {
  readonly #folder: string;
  readonly #entries = new Map<string, BaselineEntry>();
  readonly #matchCounts = new Map<string, number>();

  /** @param folder Folder of the baseline file. */
  constructor(folder: string, entries: readonly BaselineEntry[] = []) {
    this.#folder = folder;
    for (const entry of entries) {
      if (isSuppressible(entry.code)) this.#entries.set(createKey(entry), entry);
    }
  }

  get size(): number {
    return this.#entries.values().reduce((sum, { count = 1 }) => sum + count, 0);
  }

  /** Returns the number of known findings of the files that no call of `has` has matched. */
  countStale(files: readonly string[]): number {
    const names = new Set(files.map((file) => this.#getRelativePath(file)));
    return this.#entries.entries().reduce((sum, [key, { file, count = 1 }]) => {
      const staleCount = Math.max(0, count - (this.#matchCounts.get(key) ?? 0));
      return names.has(file) ? sum + staleCount : sum;
    }, 0);
  }

  /** Counts a finding, and returns whether it is known. Findings beyond the known count are new. */
  has(finding: Finding): boolean {
    const key = createKey(this.#createEntry(finding));
    const entry = this.#entries.get(key);
    if (entry === undefined || finding.recordIndex === null) return false;
    const matchCount = (this.#matchCounts.get(key) ?? 0) + 1;
    this.#matchCounts.set(key, matchCount);
    return matchCount <= (entry.count ?? 1);
  }

  /** Adds a finding. Returns false if the finding cannot be suppressed, such as a syntax or schema error. */
  add(finding: Finding): boolean {
    if (finding.recordIndex === null || !isSuppressible(finding.code)) return false;
    const entry = this.#createEntry(finding);
    const key = createKey(entry);
    const previousEntry = this.#entries.get(key);
    this.#entries.set(
      key,
      previousEntry ? { ...entry, count: (previousEntry.count ?? 1) + 1 } : entry,
    );
    return true;
  }

  /** Replaces the findings of some files with the findings of another baseline. */
  replace(files: readonly string[], newBaseline: Baseline): void {
    const names = new Set(files.map((file) => this.#getRelativePath(file)));
    for (const [key, { file }] of this.#entries) if (names.has(file)) this.#entries.delete(key);
    for (const [key, entry] of newBaseline.#entries) this.#entries.set(key, entry);
  }

  /** Formats the baseline file. The entries are sorted to keep diffs small. */
  toString(): string {
    const lines = [...this.#entries]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([, entry]) => `\n    ${JSON.stringify(entry)}`);
    return `{\n  "findings": [${lines.join(',')}${lines.length === 0 ? '' : '\n  '}]\n}\n`;
  }

  #createEntry({ file, code, recordId, recordIndex, pointer }: Finding): BaselineEntry {
    const recordPointer = `/${recordIndex}`;
    const isInRecord = pointer === recordPointer || pointer.startsWith(`${recordPointer}/`);
    return {
      file: this.#getRelativePath(file),
      code,
      record: recordId ?? recordIndex ?? -1,
      pointer: isInRecord ? pointer.slice(recordPointer.length) : pointer,
    };
  }

  #getRelativePath(file: string): string {
    return file === '<stdin>' ? file : relative(this.#folder, file).split(sep).join('/');
  }
}

/**
 * Parses a baseline file.
 * @param file Path of the baseline file.
 * @throws ConfigError if the text is not a valid baseline.
 */
export function parseBaseline(text: string, file: string): Baseline {
  try {
    const value = parseJsonText(text);
    if (isBaseline(value)) return new Baseline(dirname(file), value.findings);
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    const message = `${file}:${error.message}; correct it, or remove it and create a new one`;
    throw new ConfigError(message, { cause: error });
  }
  throw new ConfigError(
    `${file} is not a baseline; name a different FILE, or remove it and create one with --update-baseline`,
  );
}

function isSuppressible(code: string): boolean {
  return code.startsWith('lint/') || code === 'json/duplicate-key';
}

function createKey({ file, code, record, pointer }: BaselineEntry): string {
  return JSON.stringify([file, code, record, pointer]);
}
