import type { ErrorObject } from 'ajv/dist/2020.js';

/**
 * The value that was meant for certain where the schema found another: a word in other letters or with spaces
 * around it, or a number in quotes. Undefined where somebody has to look.
 */
export function mendedValue(error: ErrorObject, found: unknown): string | number | undefined {
  if (typeof found !== 'string') return undefined;
  const { keyword, params } = error;
  const plain = found.trim();
  if (keyword === 'enum') {
    const allowed: unknown[] = params['allowedValues'];
    const word = plain.toLowerCase();
    return allowed.includes(word) ? word : undefined;
  }
  const isNumber = /^(0|[1-9]\d{0,14})$/.test(plain);
  return keyword === 'type' && params['type'] === 'integer' && isNumber ? Number(plain) : undefined;
}
