import type { ErrorObject } from 'ajv/dist/2020.js';
import { type FindingCode, type Position, type Problem, RULES } from '../finding.ts';
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

/** Problem of a record property. An empty key stands for the whole record. */
export type PropertyProblem = {
  key: string;
  /** Correct value, if it is unambiguous. */
  fixedValue?: string | number;
} & Omit<Problem, 'position' | 'excerpt' | 'fix'>;

/** Function that inspects each record and returns further problems. */
export type RecordInspector = (record: InspectedRecord) => readonly PropertyProblem[];

/** Problems of a parsed record, before their positions are known. */
export type RecordProblems = {
  value: unknown;
  /** Whether the text has repeated keys. */
  hasRepeatedKeys: boolean;
  errors: readonly ErrorObject[];
  propertyProblems: readonly PropertyProblem[];
};

/** Record problem with a pointer that begins at the record. */
export type LocatedProblem = { pointer: string } & Problem;

/** Finds the error in invalid or truncated JSON, or the limit that the record exceeds. */
export function findSyntaxProblem(rawValue: RawValue, unit: 'file' | 'line'): Problem {
  const { text, truncation } = rawValue;
  try {
    parseWithPositions(rawValue, unit);
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    // Text beyond a limit is always truncated, so the limit is the cause to report.
    const { problem, offset } = error;
    const isLimitExceeded =
      truncation?.code.startsWith('limit/') && problem.code === 'json/truncated';
    if (!isLimitExceeded) return { ...problem, excerpt: getExcerpt(text, offset) };
  }
  if (truncation === null)
    throw new Error('the located parser accepts a text that JSON.parse rejects');
  let offset = text.length;
  if (truncation.code === 'limit/record-size') offset = 0;
  else if (truncation.code === 'limit/depth') offset -= 1;
  return { ...truncation, excerpt: getExcerpt(text, offset) };
}

/** Yields the problems of a record with their positions, in text order. */
export function* locateProblems(
  { value, hasRepeatedKeys, errors, propertyProblems }: RecordProblems,
  text: string,
  locatedValue: LocatedValue,
): Generator<LocatedProblem> {
  // Details are computed on demand, because they may be numerous and long.
  const entries: {
    position: OffsetPosition;
    createDetails: () => Omit<LocatedProblem, 'position'>;
  }[] = [];
  const getKeyPosition = (key: string) =>
    locatedValue.members.get(key)?.start ?? locatedValue.start;
  const getWrittenText = (key: string) => {
    const member = locatedValue.members.get(key);
    return member === undefined ? '' : text.slice(member.start.offset, member.end);
  };
  // A value of the wrong type also violates `enum`. One finding is enough.
  const keysWithTypeErrors = new Set(
    errors.filter(({ keyword }) => keyword === 'type').map(({ instancePath }) => instancePath),
  );
  for (const error of errors) {
    if (error.keyword === 'enum' && keysWithTypeErrors.has(error.instancePath)) continue;
    const key = error.instancePath.slice(1);
    const foundValue = getOwnValue(value, key);
    const createDetails = () => ({
      code: getSchemaCode(error.keyword),
      message: formatSchemaMessage(error, key, describeValue(foundValue, getWrittenText(key))),
      pointer: error.instancePath,
      ...createFix(getWrittenText(key), getFixedValue(error, foundValue)),
    });
    entries.push({ position: getKeyPosition(key), createDetails });
  }
  for (const { key, fixedValue, ...problem } of propertyProblems) {
    const pointer = key === '' ? '' : formatPointer({ parent: null, key });
    const createDetails = () => ({
      ...problem,
      pointer,
      ...createFix(getWrittenText(key), fixedValue),
    });
    entries.push({ position: getKeyPosition(key), createDetails });
  }
  const code = 'json/duplicate-key';
  const duplicates = hasRepeatedKeys ? locatedValue.duplicates : [];
  for (const duplicate of duplicates.slice(0, MAX_REPEATED_KEYS)) {
    const { key, path, firstPosition, repeatedPosition } = duplicate;
    const createDetails = () => ({
      code: code as FindingCode,
      message: describeDuplicateKey(duplicate),
      pointer: formatPointer(path),
      related: [{ ...toPosition(firstPosition), message: `first occurrence of ${quoteText(key)}` }],
    });
    entries.push({ position: repeatedPosition, createDetails });
  }
  const firstUnlisted = duplicates[MAX_REPEATED_KEYS];
  if (firstUnlisted !== undefined) {
    const message = `${duplicates.length - MAX_REPEATED_KEYS} more keys of the record are repeated from here on; they are not listed`;
    entries.push({
      position: firstUnlisted.repeatedPosition,
      createDetails: () => ({ code, message, pointer: '' }),
    });
  }
  for (const { position, createDetails } of entries.toSorted(
    (a, b) => a.position.offset - b.position.offset,
  )) {
    yield {
      ...createDetails(),
      position: toPosition(position),
      excerpt: getExcerpt(text, position.offset),
    };
  }
}

function toPosition({ line, column }: OffsetPosition): Position {
  return { line, column };
}

function createFix(writtenText: string, fixedValue: string | number | undefined) {
  // Multi-line YAML values cannot be replaced safely.
  if (fixedValue === undefined || writtenText === '' || writtenText.includes('\n')) return {};
  return { fix: { written: writtenText, replacement: JSON.stringify(fixedValue) } };
}

function getSchemaCode(keyword: string): FindingCode {
  const code = `schema/${keyword}`;
  if (code in RULES) return code as FindingCode;
  throw new Error(`the endpoint schema uses the keyword ${keyword}, which has no code`);
}

/** Returns the correct value, such as a lower-case word or an unquoted number, if it is unambiguous. */
function getFixedValue(
  { keyword, params }: ErrorObject,
  value: unknown,
): string | number | undefined {
  if (typeof value !== 'string') return undefined;
  const trimmedText = value.trim();
  if (keyword === 'enum') {
    const allowedValues: unknown[] = params['allowedValues'];
    const word = trimmedText.toLowerCase();
    return allowedValues.includes(word) ? word : undefined;
  }
  const isNumber = /^(0|[1-9]\d{0,14})$/.test(trimmedText);
  return keyword === 'type' && params['type'] === 'integer' && isNumber
    ? Number(trimmedText)
    : undefined;
}

function formatSchemaMessage(
  { keyword, params }: ErrorObject,
  key: string,
  foundDescription: string,
): string {
  if (keyword === 'required') {
    return `the record has no ${JSON.stringify(params['missingProperty'])}, which is required`;
  }
  const expected =
    keyword === 'enum'
      ? `one of ${params['allowedValues'].join(', ')}`
      : addArticle(String(params['type']));
  return `${key === '' ? 'a record' : key} must be ${expected}; found ${foundDescription}`;
}

/** Describes the type and text of a value for messages. */
export function describeValue(value: unknown, writtenText: string): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'object') return 'an object';
  const shortText = shorten(writtenText);
  if (typeof value === 'number' && !Number.isFinite(value)) {
    return `${shortText}, which is beyond the range of numbers`;
  }
  return shortText === '' ? addArticle(typeof value) : `the ${typeof value} ${shortText}`;
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
