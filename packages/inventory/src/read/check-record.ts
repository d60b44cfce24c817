import type { ErrorObject } from 'ajv/dist/2020.js';
import type { FindingCode, Position, Problem } from '../finding.ts';
import {
  describeDuplicateKey,
  formatPointer,
  JsonSyntaxError,
  type LocatedValue,
  type OffsetPosition,
  parseWithPositions,
} from '../json/parser.ts';
import type { RawValue } from '../json/record-run.ts';
import { MAX_REPEATED_KEYS } from '../limits.ts';
import { getExcerpt, quoteText, shorten } from '../text.ts';

/** Record after schema validation. */
export type InspectedRecord = {
  /** An endpoint record if `isValid`, otherwise any JSON value. */
  value: unknown;
  isValid: boolean;
  /** 0-based index in the inventory. */
  index: number;
  position: Position;
};

/** Problem of a record property. An empty key means the whole record. */
export type PropertyProblem = {
  key: string;
  /** The unambiguous correct value. */
  fixed?: string | number;
} & Omit<Problem, 'position' | 'excerpt' | 'fix'>;

/** Inspects each record and returns further problems. */
export type RecordInspector = (record: InspectedRecord) => readonly PropertyProblem[];

/** Problems of a parsed record, before their positions are known. */
export type RecordProblems = {
  value: unknown;
  /** Whether the text has repeated keys. */
  isRepeating: boolean;
  errors: readonly ErrorObject[];
  inspected: readonly PropertyProblem[];
};

/** Problem of a record with a pointer that begins at the record. */
export type LocatedProblem = { pointer: string } & Problem;

/** Parses the text of a valid value with positions. */
export function locateValue(raw: RawValue, unit: 'file' | 'line'): LocatedValue {
  const { text, start, enclosing, cut } = raw;
  return parseWithPositions(text, { start, unit, enclosing, isTruncated: cut !== null });
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

/** Yields the problems of a record with their positions, in the order of the text. */
export function* locateProblems(
  { value, isRepeating, errors, inspected }: RecordProblems,
  text: string,
  located: LocatedValue,
): Generator<LocatedProblem> {
  // Details are computed on demand, because they may be many and long.
  const entries: { mark: OffsetPosition; details: () => Omit<LocatedProblem, 'position'> }[] = [];
  const getKeyPosition = (key: string) => located.members.get(key)?.start ?? located.start;
  const writtenAt = (key: string) => {
    const member = located.members.get(key);
    return member === undefined ? '' : text.slice(member.start.offset, member.end);
  };
  // A value of the wrong type also violates `enum`. One finding is enough.
  const keysWithTypeErrors = new Set(
    errors.filter(({ keyword }) => keyword === 'type').map(({ instancePath }) => instancePath),
  );
  for (const error of errors) {
    if (error.keyword === 'enum' && keysWithTypeErrors.has(error.instancePath)) continue;
    const key = error.instancePath.slice(1);
    const found = getOwnValue(value, key);
    const details = () => ({
      code: getSchemaCode(error.keyword),
      message: formatSchemaMessage(error, key, describeValue(found, writtenAt(key))),
      pointer: error.instancePath,
      ...createFix(writtenAt(key), getFixedValue(error, found)),
    });
    entries.push({ mark: getKeyPosition(key), details });
  }
  for (const { key, fixed, ...problem } of inspected) {
    const pointer = key === '' ? '' : formatPointer({ parent: null, key });
    const details = () => ({ ...problem, pointer, ...createFix(writtenAt(key), fixed) });
    entries.push({ mark: getKeyPosition(key), details });
  }
  const code = 'json/duplicate-key';
  const duplicates = isRepeating ? located.duplicates : [];
  for (const duplicate of duplicates.slice(0, MAX_REPEATED_KEYS)) {
    const { key, path, first, again } = duplicate;
    const details = () => ({
      code: code as FindingCode,
      message: describeDuplicateKey(duplicate),
      pointer: formatPointer(path),
      related: [{ ...toPosition(first), message: `first occurrence of ${quoteText(key)}` }],
    });
    entries.push({ mark: again, details });
  }
  const uncounted = duplicates[MAX_REPEATED_KEYS];
  if (uncounted !== undefined) {
    const message = `${duplicates.length - MAX_REPEATED_KEYS} more keys of the record are repeated from here on; they are not listed`;
    entries.push({ mark: uncounted.again, details: () => ({ code, message, pointer: '' }) });
  }
  for (const { mark, details } of entries.toSorted((a, b) => a.mark.offset - b.mark.offset)) {
    yield { ...details(), position: toPosition(mark), excerpt: getExcerpt(text, mark.offset) };
  }
}

function toPosition({ line, column }: OffsetPosition): Position {
  return { line, column };
}

function createFix(written: string, fixed: string | number | undefined) {
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

function formatSchemaMessage({ keyword, params }: ErrorObject, key: string, found: string): string {
  if (keyword === 'required') {
    return `the record has no ${JSON.stringify(params['missingProperty'])}, which is required`;
  }
  const expected =
    keyword === 'enum'
      ? `one of ${params['allowedValues'].join(', ')}`
      : addArticle(String(params['type']));
  return `${key === '' ? 'a record' : key} must be ${expected}; found ${found}`;
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

/** Returns an own property of a record, or the record itself for an empty key. */
export function getOwnValue(value: unknown, key: string): unknown {
  if (key === '') return value;
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.getOwnPropertyDescriptor(value, key)?.value;
}
