import { LINT_RULES } from './rule-ids.ts';

/** Where something stands in a text. Both numbers are 1-based; columns count Unicode code points. */
export type Position = {
  line: number;
  column: number;
};

/** Another place that helps to understand a finding, such as the first of two equal keys. */
export type RelatedPlace = {
  message: string;
  /** The label of its source, where that is another one. */
  file?: string;
} & Position;

/** What every kind of finding is about. The codes are stable: tools may match on them. */
export const RULES = {
  'encoding/bom': 'A byte order mark stands before the text; it is skipped.',
  'encoding/utf-8': 'The bytes are not valid UTF-8.',
  'encoding/utf-16': 'The text is UTF-16 or UTF-32, and JSON files are UTF-8.',
  'json/empty': 'There is no JSON value in the file.',
  'json/syntax': 'The text is not JSON.',
  'json/truncated': 'The text ends before everything that was opened is closed.',
  'json/trailing-data': 'Something stands after the end of the JSON value.',
  'json/duplicate-key': 'One object has the same key more than once.',
  'yaml/syntax': 'The text is not YAML.',
  'limit/depth': 'Values are nested deeper than the validator reads.',
  'limit/record-size': 'One record is larger than the validator reads.',
  'limit/yaml': 'A YAML text is larger, deeper or more repetitive than the validator reads.',
  'schema/type': 'A value has another type than the endpoint schema gives it.',
  'schema/required': 'A property that the endpoint schema requires is missing.',
  'schema/enum': 'A value is none of those that the endpoint schema allows.',
  ...LINT_RULES,
} as const;

/** The stable code of a finding. */
export type FindingCode = keyof typeof RULES;

/** What mends a finding for certain: at its position, one JSON text instead of another. */
export type Fix = {
  written: string;
  replacement: string;
};

/** A finding before it is known which file and record it belongs to. */
export type Problem = {
  code: FindingCode;
  message: string;
  position: Position;
  /** An error unless something else is said. */
  severity?: Severity;
  related?: RelatedPlace[];
  excerpt?: Excerpt;
  fix?: Fix;
};

/** Errors make an inventory invalid; warnings do not. */
export type Severity = 'error' | 'warning';

/** The part of the line around a position, for showing; `column` is the position inside `text`. */
export type Excerpt = {
  text: string;
  column: number;
};

/** One thing that is wrong with an inventory. */
export type Finding = {
  /** The label of the source, as given in the options. */
  file: string;
  /** JSON pointer (RFC 6901) into the document, or into the line's value for JSON Lines. */
  pointer: string;
  /** The record's `id` when it has a readable one. */
  recordId: string | null;
  /** The record's 0-based place in the inventory; null for what concerns no single record. */
  recordIndex: number | null;
  code: FindingCode;
  message: string;
  severity: Severity;
  related?: RelatedPlace[];
  excerpt?: Excerpt;
  fix?: Fix;
} & Position;
