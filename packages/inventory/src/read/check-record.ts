import type { ErrorObject } from 'ajv/dist/2020.js';
import type { FindingCode, Position, Problem } from '../finding.ts';
import {
  type LocatedValue,
  type OffsetPosition,
  parseWithPositions,
  formatPointer,
} from '../json/parser.ts';
import { parseValue, type RawValue } from '../json/run.ts';
import { JsonSyntaxError } from '../json/syntax-error.ts';
import { MAX_REPEATED_KEYS } from '../limits.ts';
import { isEndpointRecord } from '../record.ts';
import { getExcerpt, quoteText, shorten } from '../text.ts';

/** A problem in a record, with a pointer that begins at the record. */
export type RecordProblem = { pointer: string } & Problem;

/** Result of checking one record. */
export type RecordCheck = {
  /** The record's `id`, if it is a string. */
  id: string | null;
  /** Whether the rest of a JSON file can be read. False after invalid JSON, which has no reliable end. */
  canContinue: boolean;
  /** Problems in the order of the text. They are created on demand, because they may be long. */
  problems: Iterable<RecordProblem>;
};

/** A record that was read. */
export type InspectedRecord = {
  /** An endpoint record if `isValid`, otherwise any JSON value. */
  value: unknown;
  isValid: boolean;
  /** 0-based index in the inventory. */
  index: number;
  position: Position;
};

/** A problem of a record property. An empty key means the whole record. */
export type PropertyProblem = {
  key: string;
  /** The unambiguous correct value. */
  fixed?: string | number;
} & Omit<Problem, 'position' | 'excerpt' | 'fix'>;

/** A parsed YAML record. Positions are computed on demand. */
export type LocatedRecord = {
  value: unknown;
  isRepeating: boolean;
  text: string;
  start: Position;
  locate: () => LocatedValue;
};

/** Inspects each record and returns further problems. */
export type Inspect = (record: InspectedRecord) => readonly PropertyProblem[];

const NONE: readonly never[] = [];
const CLEAN: RecordCheck = { id: null, canContinue: true, problems: NONE };

/** Problems of a parsed record without positions. */
export type UnlocatedProblems = {
  value: unknown;
  isRepeating: boolean;
  errors: readonly ErrorObject[];
  inspected: readonly PropertyProblem[];
};

/**
 * Checks a parsed record against the schema and with `inspect`. Returns null if there are no problems.
 * @param isRepeating Whether the text has repeated keys.
 */
export function findProblems(
  value: unknown,
  isRepeating: boolean,
  inspection: { inspect: Inspect; index: number; position: Position } | undefined,
): UnlocatedProblems | null {
  const isValid = isEndpointRecord(value);
  const errors = isEndpointRecord.errors ?? NONE;
  let inspected: UnlocatedProblems['inspected'] = NONE;
  if (inspection !== undefined) {
    const { inspect, index, position } = inspection;
    inspected = inspect({ value, isValid, index, position });
  }
  const isClean = isValid && !isRepeating && inspected.length === 0;
  return isClean ? null : { value, isRepeating, errors, inspected };
}

/** Checks the text of one record: JSON, repeated keys, schema and `inspect`. */
export function checkRecord(
  raw: RawValue,
  unit: 'file' | 'line',
  index: number,
  inspect: Inspect | undefined,
): RecordCheck {
  const parsed = raw.parsed ?? (raw.cut === null ? parseValue(raw.text) : null);
  if (parsed === null) {
    const problem = findSyntaxProblem(raw, unit);
    const canContinue = problem.code.startsWith('limit/');
    return { id: null, canContinue, problems: [{ ...problem, pointer: '' }] };
  }
  const isRepeating = parsed.strings !== raw.strings;
  const inspection = inspect && { inspect, index, position: raw.start };
  const judged = findProblems(parsed.value, isRepeating, inspection);
  return judged === null ? CLEAN : locateProblems(judged, raw.text, locateValue(raw, unit));
}

/** Parses the text of a valid value with positions. */
export function locateValue(raw: RawValue, unit: 'file' | 'line'): LocatedValue {
  return parseWithPositions(raw.text, createContext(raw, unit));
}

/** Adds positions to the problems of a record. */
export function locateProblems(
  judged: UnlocatedProblems,
  text: string,
  located: LocatedValue,
): RecordCheck {
  const id = getOwnValue(judged.value, 'id');
  const problems = problemsIn(judged, text, located);
  return { id: typeof id === 'string' ? id : null, canContinue: true, problems };
}

/** Finds the error in invalid or truncated JSON. */
export function findSyntaxProblem(raw: RawValue, unit: 'file' | 'line'): Problem {
  const { text, cut } = raw;
  try {
    locateValue(raw, unit);
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    // Text that was cut at a limit is always truncated. The limit is the cause to report.
    const { problem, offset } = error;
    const isLimit = cut?.code.startsWith('limit/') && problem.code === 'json/truncated';
    if (!isLimit) return { ...problem, excerpt: getExcerpt(text, offset) };
  }
  if (cut === null) throw new Error('the located parser accepts a text that JSON.parse rejects');
  let offset = text.length;
  if (cut.code === 'limit/record-size') offset = 0;
  else if (cut.code === 'limit/depth') offset -= 1;
  return { ...cut, excerpt: getExcerpt(text, offset) };
}

function createContext({ start, enclosing, cut }: RawValue, unit: 'file' | 'line') {
  return { start, unit, enclosing, isCut: cut !== null };
}

function* problemsIn(
  { value, isRepeating, errors, inspected }: UnlocatedProblems,
  text: string,
  located: LocatedValue,
): Generator<RecordProblem> {
  const entries: { mark: OffsetPosition; details: () => Omit<RecordProblem, 'position'> }[] = [];
  const markOf = (key: string) => located.members.get(key)?.start ?? located.start;
  // A value of the wrong type also violates `enum`. One finding is enough.
  const mistyped = new Set(
    errors.filter(({ keyword }) => keyword === 'type').map(({ instancePath }) => instancePath),
  );
  for (const error of errors) {
    if (error.keyword === 'enum' && mistyped.has(error.instancePath)) continue;
    const key = error.instancePath.slice(1);
    const found = getOwnValue(value, key);
    entries.push({
      mark: markOf(key),
      details: () => ({
        code: getSchemaCode(error.keyword),
        message: formatSchemaMessage(error, key, found, getWrittenValue(text, located, key)),
        pointer: error.instancePath,
        ...createFix(text, located, key, getFixedValue(error, found)),
      }),
    });
  }
  for (const { key, fixed, ...problem } of inspected) {
    const pointer = key === '' ? '' : formatPointer({ parent: null, key });
    const details = () => ({ ...problem, pointer, ...createFix(text, located, key, fixed) });
    entries.push({ mark: markOf(key), details });
  }
  const duplicates = isRepeating ? located.duplicates : [];
  for (const { key, path, first, again } of duplicates.slice(0, MAX_REPEATED_KEYS)) {
    const details = () => ({
      code: 'json/duplicate-key' as const,
      message: `the key ${quoteText(key)} is already in this object, at ${first.line}:${first.column}`,
      pointer: formatPointer(path),
      related: [{ ...toPosition(first), message: `first occurrence of ${quoteText(key)}` }],
    });
    entries.push({ mark: again, details });
  }
  const uncounted = duplicates[MAX_REPEATED_KEYS];
  if (uncounted !== undefined) {
    const message = `${duplicates.length - MAX_REPEATED_KEYS} more keys of the record are repeated from here on; they are not listed`;
    const details = () => ({ code: 'json/duplicate-key' as const, message, pointer: '' });
    entries.push({ mark: uncounted.again, details });
  }
  for (const { mark, details } of entries.toSorted((a, b) => a.mark.offset - b.mark.offset)) {
    yield { ...details(), position: toPosition(mark), excerpt: getExcerpt(text, mark.offset) };
  }
}

function toPosition({ line, column }: OffsetPosition): Position {
  return { line, column };
}

/** Returns the text of a property value. Empty if the record lacks the property. */
function getWrittenValue(text: string, located: LocatedValue, key: string): string {
  const member = located.members.get(key);
  return member === undefined ? '' : text.slice(member.start.offset, member.end);
}

function createFix(text: string, located: LocatedValue, key: string, fixed?: string | number) {
  const written = getWrittenValue(text, located, key);
  // Multi-line YAML values cannot be replaced safely.
  if (fixed === undefined || written === '' || written.includes('\n')) return {};
  return { fix: { written, replacement: JSON.stringify(fixed) } };
}

const SCHEMA_CODES: Partial<Record<string, FindingCode>> = {
  type: 'schema/type',
  required: 'schema/required',
  enum: 'schema/enum',
};

function getSchemaCode(keyword: string): FindingCode {
  const code = SCHEMA_CODES[keyword];
  if (code !== undefined) return code;
  throw new Error(`the endpoint schema uses the keyword ${keyword}, which has no code`);
}

/** Returns the correct value, such as a lower-case word or an unquoted number, if it is unambiguous. */
function getFixedValue(
  { keyword, params }: ErrorObject,
  found: unknown,
): string | number | undefined {
  if (typeof found !== 'string') return undefined;
  const plain = found.trim();
  if (keyword === 'enum') {
    const allowed: unknown[] = params['allowedValues'];
    const word = plain.toLowerCase();
    return allowed.includes(word) ? word : undefined;
  }
  const isNumber = /^(0|[1-9]\d{0,14})$/.test(plain);
  return keyword === 'type' && params['type'] === 'integer' && isNumber ? Number(plain) : undefined;
}

function formatSchemaMessage(
  { keyword, params }: ErrorObject,
  key: string,
  value: unknown,
  written: string,
): string {
  if (keyword === 'required') {
    return `the record has no ${JSON.stringify(params['missingProperty'])}, which is required`;
  }
  const expected =
    keyword === 'enum'
      ? `one of ${params['allowedValues'].join(', ')}`
      : addArticle(String(params['type']));
  return `${key === '' ? 'a record' : key} must be ${expected}; found ${describeValue(value, written)}`;
}

/** Describes the type and the text of a value for messages. */
export function describeValue(value: unknown, written: string): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'object') return 'an object';
  const shown = shorten(written);
  if (typeof value === 'number' && !Number.isFinite(value)) {
    return `${shown}, which is beyond the range of numbers`;
  }
  return shown === '' ? addArticle(typeof value) : `the ${typeof value} ${shown}`;
}

function addArticle(type: string): string {
  return /^[aeiou]/.test(type) ? `an ${type}` : `a ${type}`;
}

function getOwnValue(value: unknown, key: string): unknown {
  if (key === '') return value;
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.getOwnPropertyDescriptor(value, key)?.value;
}
