import { instantOf } from './instant.ts';
import { normaliseText } from '../text/normalise.ts';
import type { Payload } from './schema.ts';

const MAX_DEPTH = 32;
const MAX_ATTRIBUTES_BYTES = 64 * 1024;

/** The codes of ISO 4217 that are in use, as the Unicode data of the runtime has them. */
const CURRENCIES: ReadonlySet<string> = new Set(Intl.supportedValuesOf('currency'));

/** What is wrong, and where: a path as in the errors of a schema. Contract 2. */
export type ValueError = { path: string; message: string };

/**
 * The rules of a payload that its schema cannot say: what PostgreSQL cannot store (NUL characters,
 * half surrogate pairs, numbers that are not finite), how large and deep `attributes` may be, a
 * description in which search finds no word (it may look like text and be invisible), dates that the
 * calendar does not have, and currencies that no country has. Contract 4, PayloadSchema.
 * @returns Every rule that is broken; empty for a good payload.
 */
export function findValueErrors(payload: Payload): ValueError[] {
  const errors = findUnstorable(payload);
  // Text of endless depth would overflow the stack of whatever serializes it.
  if (errors.length > 0) return errors;
  if (Buffer.byteLength(JSON.stringify(payload.attributes ?? {})) > MAX_ATTRIBUTES_BYTES) {
    errors.push({ path: 'body/attributes', message: 'must be at most 64 KiB of JSON' });
  }
  if (!hasWord(payload.description)) {
    errors.push({ path: 'body/description', message: 'must have a letter or a digit' });
  }
  if (payload.published_at !== undefined && !isDate(payload.published_at)) {
    const message = 'must be a time of RFC 3339 between the years 1000 and 9999';
    errors.push({ path: 'body/published_at', message });
  }
  if (payload.currency !== undefined && !CURRENCIES.has(payload.currency)) {
    errors.push({ path: 'body/currency', message: 'must be a currency code of ISO 4217' });
  }
  return errors;
}

/** Almost every description has one of these where it begins; the normaliser reads it to its end. */
const PLAIN_LETTER = /[0-9a-zа-я]/i;

function hasWord(text: string): boolean {
  return PLAIN_LETTER.test(text) || normaliseText(text) !== '';
}

function isDate(text: string): boolean {
  const year = instantOf(text).getUTCFullYear();
  return year >= 1000 && year <= 9999;
}

/** Walks with a list of its own: a payload can be nested deeper than the stack is. */
function findUnstorable(payload: Payload): ValueError[] {
  const errors: ValueError[] = [];
  const waiting: { path: string; value: unknown; depth: number }[] = [
    { path: 'body', value: payload, depth: 0 },
  ];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { path, value, depth } = next;
    if (typeof value === 'string') {
      const message = describeText(value);
      if (message !== undefined) errors.push({ path, message });
    } else if (typeof value === 'number') {
      if (!Number.isFinite(value)) errors.push({ path, message: 'must be a finite number' });
    } else if (typeof value === 'object' && value !== null) {
      // The payload itself is the first level, `attributes` the second.
      if (depth > MAX_DEPTH) {
        return [{ path: 'body/attributes', message: `must be at most ${MAX_DEPTH} levels deep` }];
      }
      for (const [key, inner] of Object.entries(value)) {
        const message = describeText(key);
        if (message !== undefined) errors.push({ path, message: `a key ${message}` });
        waiting.push({ path: `${path}/${key}`, value: inner, depth: depth + 1 });
      }
    }
  }
  return errors;
}

function describeText(text: string): string | undefined {
  if (text.includes('\0')) return 'must not hold the NUL character';
  if (!text.isWellFormed()) return 'must be well-formed Unicode: it has half a surrogate pair';
  return undefined;
}
