import { isDeepStrictEqual } from 'node:util';
import { PayloadSchema } from '@oselya/collector/payload';
import type { TSchema } from 'typebox';
import { CommandError } from '../command.ts';
import { parseJson } from '../http.ts';
import { oneLine } from '../terminal.ts';
import { isRecord, type Row } from './row.ts';

/** Kind of a field's value. A price is a number with at most two decimals. */
type Kind = 'text' | 'number' | 'price' | 'list' | 'object';

const KINDS: Readonly<Record<string, Kind>> = {
  number: 'number',
  integer: 'number',
  array: 'list',
  object: 'object',
};

/** Kinds of the payload fields that a file may contain. */
const FIELD_KINDS = new Map<string, Kind>(
  Object.entries<TSchema>(PayloadSchema.properties)
    .filter(([field]) => field !== 'source_slug')
    .map(([field, schema]) => [field, KINDS[String(Reflect.get(schema, 'type'))] ?? 'text']),
);
FIELD_KINDS.set('price', 'price');

/** Names of the payload fields that a file may contain. */
export const PAYLOAD_FIELDS: readonly string[] = [...FIELD_KINDS.keys()];

const REQUIRED: ReadonlySet<string> = new Set(PayloadSchema.required);

/** Number of records that are searched for the mapped columns before anything is sent. */
const MAX_HELD_ROWS = 100;

const MAX_NAMES = 20;

/** Options for converting records to payloads. */
export type PayloadOptions = {
  /** Source of all payloads. It overrides the source in the file. */
  source: string;
  /** Columns of the mapped fields. */
  mapping: ReadonlyMap<string, string>;
  /** Called with each unknown field name. */
  onUnknown: (name: string) => void;
};

/**
 * Creates a function that converts a record to a payload, or returns a reason for the failure. A column named like a
 * field fills that field unless the field is mapped. Other columns become `attributes`. Two different
 * values for one attribute are an error, because one of them would be lost.
 */
export function createPayloadConverter({ source, mapping, onUnknown }: PayloadOptions) {
  const mapped = new Set(mapping.values());

  return (
    record: Record<string, unknown>,
  ): { payload: Record<string, unknown> } | { reason: string } => {
    const payload: Record<string, unknown> = { source_slug: source };
    const others: [string, unknown][] = [];
    for (const [name, value] of Object.entries(record)) {
      if (mapped.has(name) || isBlank(value)) continue;
      const kind = mapping.has(name) ? undefined : FIELD_KINDS.get(name);
      if (kind !== undefined) {
        payload[name] = convertValue(kind, value);
      } else if (name !== 'source_slug') {
        onUnknown(name);
        others.push([name, value]);
      }
    }
    for (const [field, column] of mapping) {
      const found = Object.hasOwn(record, column) ? record[column] : undefined;
      const value = convertValue(FIELD_KINDS.get(field) ?? 'text', found);
      if (value !== undefined) payload[field] = value;
    }
    const own = payload['attributes'] ?? {};
    // The schema rejects attributes that are not an object.
    if (others.length > 0 && isRecord(own)) {
      const twice = others.find(
        ([name, value]) => Object.hasOwn(own, name) && !isDeepStrictEqual(own[name], value),
      );
      if (twice !== undefined) {
        return {
          reason: `${twice[0]} is given twice, by itself and within attributes: leave one of them out`,
        };
      }
      payload['attributes'] = Object.fromEntries([...others, ...Object.entries(own)]);
    }
    return { payload };
  };
}

/**
 * Converts a value of a file to the kind of its field: numbers and lists from text, and ids from numbers.
 * Other values remain unchanged for validation by the payload schema.
 * @returns Undefined for null and blank text.
 */
export function convertValue(kind: Kind, value: unknown): unknown {
  if (isBlank(value)) return undefined;
  // Unsafe integers were rounded by JSON.parse, so different ids could become equal.
  if (kind === 'text') return Number.isSafeInteger(value) ? String(value) : value;
  if (typeof value !== 'string') return value;
  const text = value.trim();
  if (kind === 'number' || kind === 'price') {
    return isAmbiguous(kind, text) ? value : (toNumber(text) ?? value);
  }
  const json = /^[[{]/.test(text) ? parseJson(text) : undefined;
  return json ?? (kind === 'list' ? splitList(text) : value);
}

function isBlank(value: unknown): boolean {
  return (
    value === null || value === undefined || (typeof value === 'string' && value.trim() === '')
  );
}

// Digits, or groups of three digits separated by spaces, with optional decimals.
const NUMBER = /^([+-]?)(\d{1,3}(?:[ \u00A0\u2009\u202F]\d{3})+|\d+)(?:[.,](\d+))?$/;
// "1,200" and "1.200" may mean 1200 or 1.2.
const AMBIGUOUS = /^[+-]?[1-9]\d{0,2}[.,]\d{3}$/;

function isAmbiguous(kind: Kind, text: string): boolean {
  return AMBIGUOUS.test(text) && (kind === 'price' || text.includes(','));
}

/** Returns advice on how to write an ambiguous value. Undefined for other values. */
export function getFormatAdvice(field: string, value: unknown): string | undefined {
  const kind = FIELD_KINDS.get(field) ?? 'text';
  if (kind === 'text' && typeof value === 'number') return 'quote it, so that no digit is lost';
  if ((kind !== 'number' && kind !== 'price') || typeof value !== 'string') return undefined;
  const text = value.trim();
  if (!isAmbiguous(kind, text)) return undefined;
  const whole = text.replace(/[.,]/, '');
  const decimal = Number(text.replace(',', '.'));
  return `${text} may be ${whole} or ${decimal}: write ${whole}, or at most two decimals`;
}

function toNumber(text: string): number | undefined {
  const match = NUMBER.exec(text);
  if (match === null) return undefined;
  const [, sign = '', digits = '', decimals = '0'] = match;
  return Number(`${sign}${digits.replaceAll(/\D/g, '')}.${decimals}`);
}

/** Splits phone numbers or URLs. A comma within a URL is not followed by a space. */
function splitList(text: string): string[] {
  const separator = /^https?:/i.test(text) ? /[\s|]+|[,;](?=https?:)|[,;]\s+/i : /[,;|\n]/;
  return text
    .split(separator)
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

/** Adds a name, up to one more than `formatNames` shows. */
export function addName(names: Set<string>, name: string): void {
  if (names.size <= MAX_NAMES) names.add(name);
}

/** Formats names as one line. */
export function formatNames(names: ReadonlySet<string>): string {
  const shown = [...names].slice(0, MAX_NAMES).map(oneLine).join(', ');
  return names.size > MAX_NAMES ? `${shown}, …` : shown;
}

/**
 * Yields rows after checking that the first rows contain the mapped columns.
 * @param onMissing Called if the first rows lack the column of an optional field.
 * @throws CommandError if the first rows lack the column of a required field, or if the whole
 *   file lacks a column.
 */
export async function* checkMapping(
  rows: AsyncIterable<Row>,
  mapping: ReadonlyMap<string, string>,
  onMissing: (line: string) => void,
): AsyncGenerator<Row> {
  const missing = new Map(mapping);
  const names = new Set<string>();
  let records = 0;
  let held: Row[] | undefined = [];

  function judge(isWhole: boolean): void {
    // Without readable records, only the bad rows are reported.
    if (missing.size === 0 || records === 0) return;
    const [field = '', column = ''] =
      [...missing].find(([name]) => REQUIRED.has(name)) ?? [...missing][0] ?? [];
    const subject = isWhole ? 'no record has' : `none of the first ${records} records has`;
    const message = `${subject} ${JSON.stringify(oneLine(column))} (--map ${field}=${oneLine(column)})`;
    if (isWhole || REQUIRED.has(field)) {
      throw new CommandError(`${message}: they have ${formatNames(names)}`);
    }
    onMissing(`Their ${field} is missing: ${message}.`);
  }

  for await (const row of rows) {
    if (held === undefined) {
      yield row;
      continue;
    }
    if ('fields' in row) {
      records += 1;
      for (const name of Object.keys(row.fields)) addName(names, name);
      for (const [field, column] of missing) {
        if (Object.hasOwn(row.fields, column)) missing.delete(field);
      }
    }
    held.push(row);
    if (missing.size > 0 && held.length < MAX_HELD_ROWS) continue;
    judge(false);
    yield* held;
    held = undefined;
  }
  if (held === undefined) return;
  judge(true);
  yield* held;
}
