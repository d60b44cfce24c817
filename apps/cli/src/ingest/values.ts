import { parseJson } from '../json.ts';

/** What kind of value a field of a payload has. A price is a number of which nobody writes a thousandth. */
export type Kind = 'text' | 'number' | 'price' | 'list' | 'object';

/**
 * A value as a payload has it, where the file says the same in another way: numbers and lists as text,
 * which is all that CSV has, and ids as numbers. Anything else stays as it is, and is judged by the
 * payload's schema: nothing is guessed.
 * @returns Undefined for what says nothing: null and empty text.
 */
export function toValue(kind: Kind, value: unknown): unknown {
  if (isNothing(value)) return undefined;
  // Of a longer number JSON.parse has lost digits, and two ids would be one.
  if (kind === 'text') return Number.isSafeInteger(value) ? String(value) : value;
  if (typeof value !== 'string') return value;
  const text = value.trim();
  if (isNumeric(kind)) return isAmbiguous(kind, text) ? value : (toNumber(text) ?? value);
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
// "1,200" is twelve hundred to some and one and a fifth to others, and so is a price of "1.200".
const AMBIGUOUS = /^[+-]?[1-9]\d{0,2}[.,]\d{3}$/;

function isNumeric(kind: Kind): kind is 'number' | 'price' {
  return kind === 'number' || kind === 'price';
}

function isAmbiguous(kind: Kind, text: string): boolean {
  return AMBIGUOUS.test(text) && (kind === 'price' || text.includes(','));
}

/** How to write a value that was refused since it may be two; undefined for every other one. */
export function describeAmbiguity(kind: Kind, value: unknown): string | undefined {
  if (kind === 'text' && typeof value === 'number')
    return 'put it in quotes, so that no digit is lost';
  if (!isNumeric(kind) || typeof value !== 'string') return undefined;
  const text = value.trim();
  if (!isAmbiguous(kind, text)) return undefined;
  const whole = text.replace(/[.,]/, '');
  const decimal = Number(text.replace(',', '.'));
  return `${text} may be ${whole} or ${decimal}: write ${whole}, or at most two decimals`;
}

/** `52000`, `52 000`, `47,5`; undefined for what is no number. */
function toNumber(text: string): number | undefined {
  const match = NUMBER.exec(text);
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
