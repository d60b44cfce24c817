import { Ajv2020 } from 'ajv/dist/2020.js';
import type { Finding } from '../finding.ts';

/** A finding as a baseline keeps it: without its place in the file, which moves with every edit. */
type Entry = {
  file: string;
  code: string;
  /** The record's id; of a record without one its place in the inventory. */
  record: string | number;
  /** The pointer from the record on. */
  pointer: string;
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
  readonly #entries = new Map<string, Entry>();
  readonly #seen = new Set<string>();

  constructor(entries: readonly Entry[] = []) {
    for (const entry of entries) this.#entries.set(keyOf(entry), entry);
  }

  get size(): number {
    return this.#entries.size;
  }

  /** How many of its findings were not asked for. */
  get gone(): number {
    return this.#entries.size - this.#seen.size;
  }

  has(finding: Finding): boolean {
    const entry = entryOf(finding);
    const key = entry === null ? null : keyOf(entry);
    if (key === null || !this.#entries.has(key)) return false;
    this.#seen.add(key);
    return true;
  }

  /** Takes a finding in, and says whether it could: only what concerns one record has an entry. */
  add(finding: Finding): boolean {
    const entry = entryOf(finding);
    if (entry === null) return false;
    this.#entries.set(keyOf(entry), entry);
    return true;
  }

  /** The text of the file, sorted so that changes to it are small. */
  toString(): string {
    const lines = [...this.#entries]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([, entry]) => `\n    ${JSON.stringify(entry)}`);
    return `{\n  "findings": [${lines.join(',')}${lines.length === 0 ? '' : '\n  '}]\n}\n`;
  }
}

/**
 * Reads a baseline that `toString` wrote.
 * @param file How messages name it.
 * @throws BaselineError
 */
export function parseBaseline(text: string, file: string): Baseline {
  try {
    const value: unknown = JSON.parse(text);
    if (isBaseline(value)) return new Baseline(value.findings);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  throw new BaselineError(`${file} is no baseline; write it anew with --update-baseline`);
}

/** Text that is no JSON cannot be known: after it, nothing is read. */
function entryOf({ file, code, recordId, recordIndex, pointer }: Finding): Entry | null {
  if (recordIndex === null || /^(json|encoding|limit)\//.test(code)) return null;
  const base = `/${recordIndex}`;
  const rest = pointer.startsWith(base) ? pointer.slice(base.length) : pointer;
  return { file, code, record: recordId ?? recordIndex, pointer: rest };
}

function keyOf({ file, code, record, pointer }: Entry): string {
  return JSON.stringify([file, code, record, pointer]);
}
