import { isDeepStrictEqual } from 'node:util';
import { PayloadSchema } from '@oselya/collector/payload';
import type { TSchema } from 'typebox';
import { CommandError } from '../command.ts';
import { parseJson } from '../http.ts';
import { sanitizeLine } from '../terminal.ts';
import { isRecord, peek, type Row } from './row.ts';

/** Kind of a field's value. A price is a number with at most two decimals. */
type FieldKind = 'text' | 'number' | 'price' | 'list' | 'object';

const KIND_BY_SCHEMA_TYPE: Readonly<Record<string, FieldKind>> = {
  number: 'number',
  integer: 'number',
  array: 'list',
  object: 'object',
};

const FIELD_KINDS = new Map<string, FieldKind>(
  Object.entries<TSchema>(PayloadSchema.properties)
    .filter(([field]) => field !== 'source_slug')
    .map(([field, schema]) => [
      field,
      KIND_BY_SCHEMA_TYPE[String(Reflect.get(schema, 'type'))] ?? 'text',
    ]),
);
FIELD_KINDS.set('price', 'price');

/** Names of the payload fields that a file may contain. */
export const PAYLOAD_FIELDS: readonly string[] = [...FIELD_KINDS.keys()];

const REQUIRED_FIELDS: ReadonlySet<string> = new Set(PayloadSchema.required);

/** Maximum number of records to search for the mapped columns before the first request. */
const MAX_SEARCHED_ROWS = 100;

const MAX_NAMES = 20;

type PayloadOptions = {
  /** Source of all payloads. It overrides the source in the file. */
  source: string;
  mapping: ReadonlyMap<string, string>;
  onUnknown: (name: string) => void;
};

/** A payload, or the reason why a record is not a payload. */
type Conversion = { payload: Record<string, unknown> } | { reason: string };

/**
 * Creates a function that converts records to payloads. A column named like a field fills that field unless the field
 * is mapped. Other columns become `attributes`, except `source_slug` and blank values. Two different values for one
 * attribute are an error.
 */
export function createPayloadConverter({ source, mapping, onUnknown }: PayloadOptions) {
  const mappedColumns = new Set(mapping.values());

  return (record: Record<string, unknown>): Conversion => {
    const payload: Record<string, unknown> = { source_slug: source };
    const unknownColumns: [string, unknown][] = [];
    for (const [name, value] of Object.entries(record)) {
      if (mappedColumns.has(name) || isBlank(value)) continue;
      const kind = mapping.has(name) ? undefined : FIELD_KINDS.get(name);
      if (kind !== undefined) {
        payload[name] = convertValue(kind, value);
      } else if (name !== 'source_slug') {
        onUnknown(name);
        unknownColumns.push([name, value]);
      }
    }
    for (const [field, column] of mapping) {
      const value = Object.hasOwn(record, column) ? record[column] : undefined;
      const convertedValue = convertValue(FIELD_KINDS.get(field) ?? 'text', value);
      if (convertedValue !== undefined) payload[field] = convertedValue;
    }
    const attributes = payload['attributes'] ?? {};
    // The schema rejects attributes that are not an object.
    if (unknownColumns.length === 0 || !isRecord(attributes)) return { payload };
    for (const [name, value] of unknownColumns) {
      if (!Object.hasOwn(attributes, name) || isDeepStrictEqual(attributes[name], value)) continue;
      return {
        reason: `${name} occurs twice, by itself and within attributes: omit one of them`,
      };
    }
    payload['attributes'] = Object.fromEntries([...unknownColumns, ...Object.entries(attributes)]);
    return { payload };
  };
}

/**
 * Converts a file value to the kind of its field: numbers, lists and JSON objects from text, and text from integers.
 * Other values remain unchanged for validation by the payload schema.
 * @returns Undefined for null and blank text.
 */
export function convertValue(kind: FieldKind, value: unknown): unknown {
  if (isBlank(value)) return undefined;
  // JSON.parse rounds unsafe integers, so different IDs could become the same.
  if (kind === 'text') return Number.isSafeInteger(value) ? String(value) : value;
  if (typeof value !== 'string') return value;
  const text = value.trim();
  if (kind === 'number' || kind === 'price') {
    return isAmbiguous(kind, text) ? value : (parseNumber(text) ?? value);
  }
  const json = /^[[{]/.test(text) ? parseJson(text) : undefined;
  return json ?? (kind === 'list' ? splitList(text) : value);
}

function isBlank(value: unknown): boolean {
  return value === null || value === undefined || (typeof value === 'string' && !value.trim());
}

// Digits, or groups of three digits separated by spaces, with optional decimals.
const NUMBER_PATTERN = /^([+-]?)(\d{1,3}(?:[ \u00A0\u2009\u202F]\d{3})+|\d+)(?:[.,](\d+))?$/;
// "1,200" and "1.200" may mean 1200 or 1.2.
const AMBIGUOUS_NUMBER_PATTERN = /^[+-]?[1-9]\d{0,2}[.,]\d{3}$/;

function isAmbiguous(kind: FieldKind, text: string): boolean {
  return AMBIGUOUS_NUMBER_PATTERN.test(text) && (kind === 'price' || text.includes(','));
}

/** Returns advice on how to write an ambiguous number or an ID, or undefined for other values. */
export function getFormatAdvice(field: string, value: unknown): string | undefined {
  const kind = FIELD_KINDS.get(field) ?? 'text';
  if (kind === 'text' && typeof value === 'number') return 'quote it, so that no digit is lost';
  if ((kind !== 'number' && kind !== 'price') || typeof value !== 'string') return undefined;
  const text = value.trim();
  if (!isAmbiguous(kind, text)) return undefined;
  const integerReading = text.replace(/[.,]/, '');
  const decimalReading = Number(text.replace(',', '.'));
  return `${text} may be ${integerReading} or ${decimalReading}: write ${integerReading}, or at most two decimals`;
}

function parseNumber(text: string): number | undefined {
  const match = NUMBER_PATTERN.exec(text);
  if (match === null) return undefined;
  const [, sign = '', digits = '', decimals = '0'] = match;
  return Number(`${sign}${digits.replaceAll(/\D/g, '')}.${decimals}`);
}

/** Splits a list of phone numbers or URLs. A comma within a URL is not followed by a space. */
function splitList(text: string): string[] {
  const separator = /^https?:/i.test(text) ? /[\s|]+|[,;](?=https?:)|[,;]\s+/i : /[,;|\n]/;
  const values = text.split(separator).map((value) => value.trim());
  return values.filter((value) => value !== '');
}

/** Adds a name, up to one more than `formatNames` shows. */
export function addName(names: Set<string>, name: string): void {
  if (names.size <= MAX_NAMES) names.add(name);
}

/** Formats the first names as one line. */
export function formatNames(names: ReadonlySet<string>): string {
  const shownNames = [...names].slice(0, MAX_NAMES).map(sanitizeLine).join(', ');
  return names.size > MAX_NAMES ? `${shownNames}, …` : shownNames;
}

/**
 * Yields rows after checking that the first rows contain the mapped columns.
 * @param onMissing Called if the first rows lack the column of an optional field.
 * @throws CommandError if the first rows lack the column of a required field, or if they are the whole file and lack
 *   any mapped column.
 */
export async function* checkMapping(
  rows: AsyncIterable<Row>,
  mapping: ReadonlyMap<string, string>,
  onMissing: (line: string) => void,
): AsyncGenerator<Row> {
  const missingColumns = new Map(mapping);
  const names = new Set<string>();
  let recordCount = 0;
  const { isComplete, allItems } = await peek(rows, (head) => {
    const row = head.at(-1);
    if (row !== undefined && 'fields' in row) {
      recordCount += 1;
      for (const name of Object.keys(row.fields)) addName(names, name);
      for (const [field, column] of missingColumns) {
        if (Object.hasOwn(row.fields, column)) missingColumns.delete(field);
      }
    }
    return missingColumns.size === 0 || head.length >= MAX_SEARCHED_ROWS;
  });
  const [firstMissingColumn] = [...missingColumns].toSorted(
    ([one], [other]) => Number(REQUIRED_FIELDS.has(other)) - Number(REQUIRED_FIELDS.has(one)),
  );
  // Without readable records, only the bad rows are reported.
  if (firstMissingColumn !== undefined && recordCount > 0) {
    const [field, column] = firstMissingColumn;
    const subject = isComplete ? 'no record has' : `none of the first ${recordCount} records has`;
    const message = `${subject} ${JSON.stringify(sanitizeLine(column))} (--map ${field}=${sanitizeLine(column)})`;
    if (isComplete || REQUIRED_FIELDS.has(field)) {
      throw new CommandError(`${message}: they have ${formatNames(names)}`);
    }
    onMissing(`Their ${field} is missing: ${message}.`);
  }
  yield* allItems;
}
