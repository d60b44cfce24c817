import { RULES, validateInventory } from '@oselya/inventory';
import type {
  Finding,
  FindingCode,
  InventorySource,
  ValidateOptions,
  ValidationSummary,
} from '@oselya/inventory';
import fc from 'fast-check';

/** A record that satisfies the schema. */
export const VALID_RECORD = {
  id: 'gateway',
  name: 'Gateway',
  type: 'http',
  status: 'active',
  exposure: 'private',
  docs: 'docs/gateway.md',
  last_reviewed: '2026-11-20',
};

/** Returns a valid record with a number of objects, lists and strings, keys included. */
export function withParts(parts: number): string {
  // The record, and the list with its name.
  const own = 1 + 2 * Object.keys(VALID_RECORD).length + 2;
  return JSON.stringify({ ...VALID_RECORD, x: Array.from({ length: parts - own }, () => ({})) });
}

export async function validate(
  source: InventorySource,
  options?: ValidateOptions,
): Promise<{ findings: Finding[]; summary: ValidationSummary }> {
  const findings: Finding[] = [];
  const validation = validateInventory(source, options);
  for (;;) {
    const step = await validation.next();
    if (step.done) return { findings, summary: step.value };
    findings.push(step.value);
  }
}

/** Removes excerpts, which depend on the chunks of the source. */
export function withoutExcerpts({ findings, summary }: Awaited<ReturnType<typeof validate>>) {
  return { findings: findings.map(({ excerpt: _excerpt, ...finding }) => finding), summary };
}

export async function codesOf(source: InventorySource, options?: ValidateOptions) {
  const { findings } = await validate(source, options);
  return findings.map(({ code }) => code);
}

/** Yields the source in chunks that end at given offsets, and overwrites each chunk afterwards. */
export async function* inChunks(bytes: Buffer, ends: number[]): AsyncGenerator<Uint8Array> {
  let from = 0;
  for (const end of [...ends.toSorted((a, b) => a - b), bytes.length]) {
    const chunk = Uint8Array.from(bytes.subarray(from, end));
    yield chunk;
    chunk.fill(0x58);
    from = end;
  }
}

/** Returns the line and column of a UTF-16 offset. */
export function placeAt(text: string, offset: number): { line: number; column: number } {
  const lines = text.slice(0, offset).split('\n');
  return { line: lines.length, column: Array.from(lines.at(-1) ?? '').length + 1 };
}

const codes = Object.keys(RULES).filter((code): code is FindingCode => code in RULES);
const anyText = fc.string({ unit: 'binary' });
const count = fc.integer({ min: 1, max: 10_000 });
const place = fc.record({ line: count, column: count, message: anyText });

/** Findings with any texts. */
export const anyFinding: fc.Arbitrary<Finding> = fc.record({
  file: fc.string({ unit: 'binary', minLength: 1 }),
  line: count,
  column: fc.integer({ min: 1, max: 50 }),
  pointer: anyText,
  recordId: fc.option(anyText),
  recordIndex: fc.option(fc.nat()),
  code: fc.constantFrom(...codes),
  message: anyText,
  severity: fc.constantFrom('error', 'warning'),
  related: fc.uniqueArray(place, { maxLength: 2, selector: ({ line }) => line }),
  excerpt: fc.record({ text: anyText, column: fc.integer({ min: 1, max: 50 }) }),
});

/** Returns the fields of a value, such as `findings[].line`. */
export function fieldsOf(value: unknown, path = ''): string[] {
  if (Array.isArray(value))
    return [...new Set(value.flatMap((item) => fieldsOf(item, `${path}[]`)))];
  if (typeof value !== 'object' || value === null) return [path];
  return Object.entries(value).flatMap(([key, part]) =>
    fieldsOf(part, path === '' ? key : `${path}.${key}`),
  );
}
