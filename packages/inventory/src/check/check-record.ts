import type { ErrorObject } from 'ajv/dist/2020.js';
import { excerptAt } from '../excerpt.ts';
import type { FindingCode, Position, Problem } from '../finding.ts';
import { parseLocated } from '../json/located-parser.ts';
import { type LocatedValue, placeOf } from '../json/located-value.ts';
import { pointerTo } from '../json/pointer.ts';
import { parseValue } from '../json/parsed-value.ts';
import type { RawValue } from '../json/scan-event.ts';
import { JsonSyntaxError } from '../json/syntax-error.ts';
import { isEndpointRecord } from '../record.ts';
import { mendedValue } from './mended-value.ts';
import { inOrder, merged, type RecordProblem } from './record-problem.ts';
import { repeatedKeyProblems } from './repeated-keys.ts';
import { schemaMessage } from './schema-message.ts';

/** What the check of one record gives. */
export type RecordCheck = {
  /** The record's `id`, when it has one that is a string. */
  id: string | null;
  /** Whether what follows in a JSON file can be read: after text that is no JSON, nobody knows where it begins. */
  isPassable: boolean;
  /** In the order of the text. They are made as they are taken, since each may be long. */
  problems: Iterable<RecordProblem>;
};

/** A record as it was read, for whoever asks more of it than the schema does. */
export type ReadRecord = {
  /** An endpoint record when `isValid`; else any JSON value. */
  value: unknown;
  isValid: boolean;
  /** Its 0-based place in the inventory. */
  index: number;
  position: Position;
};

/** Something that is wrong with a property of a record, or with the record when the key is empty. */
export type PropertyProblem = {
  key: string;
  /** The value that mends it for certain. */
  mended?: string | number;
} & Omit<Problem, 'position' | 'excerpt' | 'fix'>;

/** Looks at each record, and says what else is wrong with it. */
export type Inspect = (record: ReadRecord) => readonly PropertyProblem[];

const NONE: readonly never[] = [];

const CLEAN: RecordCheck = { id: null, isPassable: true, problems: NONE };

/** What is wrong with a parsed record, before it is known where that stands in its text. */
export type Judged = {
  value: unknown;
  isRepeating: boolean;
  errors: readonly ErrorObject[];
  inspected: readonly PropertyProblem[];
};

/**
 * Judges a parsed record by the schema, and by what inspects it.
 * @param isRepeating Whether its text has more keys than its value.
 * @param inspection What inspects it, and what that is told beside the value.
 * @returns Null where nothing is wrong, as with nearly all records.
 */
export function judge(
  value: unknown,
  isRepeating: boolean,
  inspection: { inspect: Inspect; index: number; position: Position } | undefined,
): Judged | null {
  const isValid = isEndpointRecord(value);
  const errors = isEndpointRecord.errors ?? NONE;
  let inspected: Judged['inspected'] = NONE;
  if (inspection !== undefined) {
    const { inspect, index, position } = inspection;
    inspected = inspect({ value, isValid, index, position });
  }
  const isClean = isValid && !isRepeating && inspected.length === 0;
  return isClean ? null : { value, isRepeating, errors, inspected };
}

/** Checks the text of one record: JSON, repeated keys, schema, and what `inspect` finds. */
export function checkRecord(
  raw: RawValue,
  { what, index, inspect }: { what: 'file' | 'line'; index: number; inspect?: Inspect | undefined },
): RecordCheck {
  const parsed = raw.parsed ?? (raw.cut === null ? parseValue(raw.text) : null);
  if (parsed === null) {
    const problem = syntaxProblemIn(raw, what);
    const isPassable = problem.code.startsWith('limit/');
    return { id: null, isPassable, problems: [{ ...problem, pointer: '' }] };
  }
  const isRepeating = parsed.strings !== raw.strings;
  const inspection = inspect && { inspect, index, position: raw.start };
  const judged = judge(parsed.value, isRepeating, inspection);
  return judged === null ? CLEAN : locate(judged, raw, what);
}

/** Finds where in its text a record is wrong. */
export function locate(judged: Judged, raw: RawValue, what: 'file' | 'line'): RecordCheck {
  return problemsIn(judged, raw.text, parseLocated(raw.text, contextOf(raw, what)));
}

/** The problems of a record whose members were found in a text. */
export function problemsIn(
  { value, isRepeating, errors, inspected }: Judged,
  text: string,
  located: LocatedValue,
): RecordCheck {
  const others = inOrder([
    ...schemaProblems(text, located, value, errors),
    ...inspected.map(({ key, mended, ...problem }) => ({
      ...problem,
      ...placeIn(text, located, key, mended),
      pointer: key === '' ? '' : pointerTo([key]),
    })),
  ]);
  const problems = isRepeating ? merged(repeatedKeyProblems(text, located), others) : others;
  return { id: ownString(value, 'id'), isPassable: true, problems };
}

/** What is wrong with the text of a value that is no JSON, or that was cut. */
export function syntaxProblemIn(raw: RawValue, what: 'file' | 'line'): Problem {
  try {
    parseLocated(raw.text, contextOf(raw, what));
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    // Text that was cut at a limit always ends too early; the limit is the reason.
    const { problem, offset } = error;
    const isLimit = raw.cut?.code.startsWith('limit/') && problem.code === 'json/truncated';
    if (!isLimit) return { ...problem, excerpt: excerptAt(raw.text, offset) };
  }
  if (raw.cut === null) throw new Error('JSON.parse refused a text that the located parser takes');
  return { ...raw.cut, excerpt: excerptAt(raw.text, offsetOf(raw.cut, raw.text)) };
}

/** Where in a text that was cut the reason stands. */
function offsetOf({ code }: Problem, { length }: string): number {
  if (code === 'limit/record-size') return 0;
  return code === 'limit/depth' ? length - 1 : length;
}

function contextOf({ start, enclosing, cut }: RawValue, what: 'file' | 'line') {
  return { start, what, enclosing, isCut: cut !== null };
}

function schemaProblems(
  text: string,
  located: LocatedValue,
  value: unknown,
  errors: readonly ErrorObject[],
): RecordProblem[] {
  // A value of the wrong type is none of the allowed values either; saying so once is enough.
  const mistyped = new Set(
    errors.filter(({ keyword }) => keyword === 'type').map(({ instancePath }) => instancePath),
  );
  return errors
    .filter(({ keyword, instancePath }) => keyword !== 'enum' || !mistyped.has(instancePath))
    .map((error) => {
      const key = error.instancePath.slice(1);
      const member = located.members.get(key);
      const source = member === undefined ? '' : text.slice(member.start.offset, member.end);
      const found = ownValue(value, key);
      return {
        code: schemaCode(error.keyword),
        message: schemaMessage(error, key, found, source),
        pointer: error.instancePath,
        ...placeIn(text, located, key, mendedValue(error, found)),
      };
    });
}

/** Where the value of a property stands, the record itself when it has none of that name, and what mends it. */
function placeIn(text: string, located: LocatedValue, key: string, mended?: string | number) {
  const member = located.members.get(key);
  const mark = member?.start ?? located.start;
  const place = { position: placeOf(mark), excerpt: excerptAt(text, mark.offset) };
  if (member === undefined || mended === undefined) return place;
  const written = text.slice(mark.offset, member.end);
  // A block of YAML ends with its last line, which another value would not end.
  if (written.includes('\n')) return place;
  return { ...place, fix: { written, replacement: JSON.stringify(mended) } };
}

function schemaCode(keyword: string): FindingCode {
  switch (keyword) {
    case 'type':
      return 'schema/type';
    case 'required':
      return 'schema/required';
    case 'enum':
      return 'schema/enum';
    default:
      throw new Error(`the endpoint schema uses the keyword ${keyword}, which has no code`);
  }
}

function ownValue(value: unknown, key: string): unknown {
  if (key === '') return value;
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.getOwnPropertyDescriptor(value, key)?.value;
}

function ownString(value: unknown, key: string): string | null {
  const found = ownValue(value, key);
  return typeof found === 'string' ? found : null;
}
