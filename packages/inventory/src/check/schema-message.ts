import type { ErrorObject } from 'ajv/dist/2020.js';
import { shorten } from '../shorten.ts';

/**
 * Says in words what the schema found.
 * @param key the record's property that is wrong, or an empty string for the record itself
 * @param value what was found there
 * @param source how it is written in the file
 */
export function schemaMessage(
  error: ErrorObject,
  key: string,
  value: unknown,
  source: string,
): string {
  const { keyword, params } = error;
  if (keyword === 'required') {
    return `the record has no ${JSON.stringify(params['missingProperty'])}, which is required`;
  }
  if (keyword === 'enum') {
    return `${key} must be one of ${params['allowedValues'].join(', ')}; found ${describe(value, source)}`;
  }
  const subject = key === '' ? 'a record' : key;
  return `${subject} must be ${withArticle(String(params['type']))}; found ${describe(value, source)}`;
}

/** A value as a message shows it: its kind, and how it is written when that is short. */
export function describe(value: unknown, source: string): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'object') return 'an object';
  const written = shorten(source);
  if (typeof value === 'number' && !Number.isFinite(value)) {
    return `${written}, which is beyond the range of numbers`;
  }
  return written === '' ? withArticle(typeof value) : `the ${typeof value} ${written}`;
}

function withArticle(type: string): string {
  return /^[aeiou]/.test(type) ? `an ${type}` : `a ${type}`;
}
