import { createHash } from 'node:crypto';

/**
 * SHA-256, in hexadecimal, of a value's JSON with the keys of every object in order: payloads that
 * say the same have the same hash, however their keys were ordered.
 */
export function contentHash(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value, sortKeys)).digest('hex');
}

function sortKeys(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(
    Object.entries(value).toSorted(([left], [right]) => (left < right ? -1 : 1)),
  );
}
