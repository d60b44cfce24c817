import { validateInventory } from '@oselya/inventory';
import type {
  Finding,
  InventorySource,
  ValidateOptions,
  ValidationSummary,
} from '@oselya/inventory';

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

/** A valid record of so many objects, lists and texts, names included. */
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

/**
 * What `validate` gave, with of each excerpt what stands before the place: what stands behind it may come in a
 * later chunk, and is not waited for.
 */
export function withoutRest({ findings, summary }: Awaited<ReturnType<typeof validate>>) {
  return {
    findings: findings.map(({ excerpt, ...finding }) => ({
      ...finding,
      excerpt: Array.from(excerpt?.text ?? '').slice(0, (excerpt?.column ?? 1) - 1),
    })),
    summary,
  };
}

export async function codesOf(source: InventorySource, options?: ValidateOptions) {
  const { findings } = await validate(source, options);
  return findings.map(({ code }) => code);
}

/** The source in chunks that end at the given offsets; the buffer of a chunk is used again. */
export async function* inChunks(bytes: Buffer, ends: number[]): AsyncGenerator<Uint8Array> {
  let from = 0;
  for (const end of [...ends.toSorted((a, b) => a - b), bytes.length]) {
    const chunk = Uint8Array.from(bytes.subarray(from, end));
    yield chunk;
    chunk.fill(0x58);
    from = end;
  }
}

/** Line and column of a UTF-16 offset, counted in the plainest way. */
export function placeAt(text: string, offset: number): { line: number; column: number } {
  const lines = text.slice(0, offset).split('\n');
  return { line: lines.length, column: Array.from(lines.at(-1) ?? '').length + 1 };
}
