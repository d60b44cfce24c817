import { sha256 } from '../text/sha256.ts';

/** A value's JSON with the keys of every object in order: the same for payloads that say the same. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(inOrder(value));
}

/** SHA-256, in hexadecimal, of a value's canonical JSON. */
export function contentHash(value: unknown): string {
  return sha256(canonicalJson(value));
}

function inOrder(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(inOrder);
  // Without a prototype, so that a key `__proto__` is one as any other.
  const ordered: Record<string, unknown> = Object.create(null);
  for (const [key, inner] of Object.entries(value).toSorted(byKey)) ordered[key] = inOrder(inner);
  return ordered;
}

function byKey([left]: [string, unknown], [right]: [string, unknown]): number {
  return left < right ? -1 : 1;
}
