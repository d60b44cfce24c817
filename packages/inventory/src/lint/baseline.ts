import { dirname, relative, sep } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { Finding } from '../finding.ts';
import { JsonTextError, parseJsonText } from './json-text.ts';

/** A finding as a baseline keeps it: without its place in the file, which moves with every edit. */
type Entry = {
  /** Its path from the folder of the baseline on, with `/`. */
  file: string;
  code: string;
  /** The record's id; of a record without one its place in the inventory. */
  record: string | number;
  /** The pointer from the record on. */
  pointer: string;
  /** How many findings are like this; one unless told. */
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

/** The file is no baseline. The message is one line: what is wrong and what to do. */
export class BaselineError extends Error {
  override name = 'BaselineError';
}

/** Findings that are known, and need not be told again. */
export class Baseline {
  readonly #folder: string;
  readonly #entries = new Map<string, Entry>();
  readonly #asked = new Map<string, number>();

  /** @param folder Where its file is, or is to be. */
  constructor(folder: string, entries: readonly Entry[] = []) {
    this.#folder = folder;
    for (const entry of entries) {
      if (isKept(entry.code)) this.#entries.set(keyOf(entry), entry);
    }
  }

  get size(): number {
    return this.#entries.values().reduce((sum, entry) => sum + countOf(entry), 0);
  }

  /** How many findings of these files it has that were not asked for. */
  gone(files: readonly string[]): number {
    const names = new Set(files.map((file) => this.#nameOf(file)));
    return this.#entries
      .entries()
      .filter(([, { file }]) => names.has(file))
      .reduce((sum, [key, entry]) => {
        return sum + Math.max(0, countOf(entry) - (this.#asked.get(key) ?? 0));
      }, 0);
  }

  /** Whether a finding is known; one that is asked for more often than it was taken in is new. */
  has(finding: Finding): boolean {
    const key = keyOf(this.#entryOf(finding));
    const entry = this.#entries.get(key);
    if (entry === undefined || !canBeKnown(finding)) return false;
    const asked = (this.#asked.get(key) ?? 0) + 1;
    this.#asked.set(key, asked);
    return asked <= countOf(entry);
  }

  /** Takes a finding in, and says whether it could. */
  add(finding: Finding): boolean {
    if (!canBeKnown(finding)) return false;
    const entry = this.#entryOf(finding);
    const key = keyOf(entry);
    const known = this.#entries.get(key);
    this.#entries.set(key, known === undefined ? entry : { ...entry, count: countOf(known) + 1 });
    return true;
  }

  /** Takes in all that another of the same folder has, for what it had of these files. */
  replace(files: readonly string[], other: Baseline): void {
    const names = new Set(files.map((file) => this.#nameOf(file)));
    for (const [key, { file }] of this.#entries) if (names.has(file)) this.#entries.delete(key);
    for (const [key, entry] of other.#entries) this.#entries.set(key, entry);
  }

  /** The text of the file, sorted so that changes to it are small. */
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

  /** The same for one file however it is named; standard input has no path. */
  #nameOf(file: string): string {
    if (file === '<stdin>') return file;
    return relative(this.#folder, file).split(sep).join('/');
  }
}

/**
 * Reads a baseline that `toString` wrote.
 * @param file Its path, by which messages name it.
 * @throws BaselineError
 */
export function parseBaseline(text: string, file: string): Baseline {
  try {
    const value = parseJsonText(text);
    if (isBaseline(value)) return new Baseline(dirname(file), value.findings);
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    throw new BaselineError(`${file}:${error.message}; mend it, or remove it and write it anew`, {
      cause: error,
    });
  }
  throw new BaselineError(
    `${file} is no baseline; name another FILE, or remove it and write it anew with --update-baseline`,
  );
}

/** Only what concerns one record; the schema's errors never, nor text that was not read: what follows is unknown. */
function canBeKnown({ code, recordIndex }: Finding): boolean {
  return recordIndex !== null && isKept(code);
}

function isKept(code: string): boolean {
  return code.startsWith('lint/') || code === 'json/duplicate-key';
}

function countOf({ count = 1 }: Entry): number {
  return count;
}

function keyOf({ file, code, record, pointer }: Entry): string {
  return JSON.stringify([file, code, record, pointer]);
}
