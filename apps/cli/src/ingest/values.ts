import { parseJson } from '../json.ts';

/** What kind of value a field of a payload has. */
export type Kind = 'text' | 'number' | 'list' | 'object';

/**
 * A value as a payload has it, where the file says the same in another way: numbers and lists as text,
 * which is all that CSV has, and ids as numbers. Anything else stays as it is, and is judged by the
 * payload's schema: nothing is guessed.
 * @returns Undefined for what says nothing: null and empty text.
 */
export function toValue(kind: Kind, value: unknown): unknown {
  if (isNothing(value)) return undefined;
  if (kind === 'text') return typeof value === 'number' ? String(value) : value;
  if (typeof value !== 'string') return value;
  const text = value.trim();
  if (kind === 'number') return toNumber(text) ?? value;
  return parsed(text) ?? (kind === 'list' ? splitList(text) : value);
}

/** Whether a value of a file says nothing. */
export function isNothing(value: unknown): boolean {
  return (
    value === null || value === undefined || (typeof value === 'string' && value.trim() === '')
  );
}

// Groups of three digits with any kind of space between them, or digits alone; then decimals.
const NUMBER = /^([+-]?)(\d{1,3}(?:[ \u00A0\u2009\u202F]\d{3})+|\d+)(?:[.,](\d+))?$/;
// "1,200" is twelve hundred to some and one and a fifth to others.
const AMBIGUOUS = /^[+-]?[1-9]\d{0,2},\d{3}$/;

/** `52000`, `52 000`, `47,5`; undefined for what is no number, or may be two of them. */
function toNumber(text: string): number | undefined {
  const match = AMBIGUOUS.test(text) ? null : NUMBER.exec(text);
  if (match === null) return undefined;
  const [, sign = '', digits = '', decimals = '0'] = match;
  return Number(`${sign}${digits.replaceAll(/\D/g, '')}.${decimals}`);
}

/** JSON that begins as a list or an object does. */
function parsed(text: string): unknown {
  return /^[[{]/.test(text) ? parseJson(text) : undefined;
}

/** Phones, or addresses of pictures: these may have commas inside, and none has a space before `http`. */
function splitList(text: string): string[] {
  const separator = /^https?:/i.test(text) ? /[\s|]+|[,;](?=https?:)|[,;]\s+/i : /[,;|\n]/;
  return text
    .split(separator)
    .map((part) => part.trim())
    .filter((part) => part !== '');
}
