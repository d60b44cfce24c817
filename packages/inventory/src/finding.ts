/** A place in a text. Both numbers are 1-based; columns count Unicode code points. */
export type Position = { line: number; column: number };

/** Another place that helps to understand a finding, such as the first of two equal keys. */
export type RelatedPlace = {
  message: string;
  /** The label of its source, when that is another one. */
  file?: string;
} & Position;

/** The subject of each lint rule; docs/inventory/rules/ has a page for each. */
export const LINT_RULES = {
  'lint/blank-field': 'A property is present but blank.',
  'lint/credentials-in-url': 'An address contains a user name, a password or a secret parameter.',
  'lint/duplicate-id': 'Two records have the same id.',
  'lint/exposure-address': 'The declared exposure and the address contradict each other.',
  'lint/host-name': 'A host or domain is not exactly one name or address.',
  'lint/ignore': 'A record silences a finding without a reason, or one that does not exist.',
  'lint/likely-typo': 'The name of an extra property resembles that of a known one.',
  'lint/missing-owner': 'The record does not name who runs the endpoint.',
  'lint/port-range': 'A port is outside the range of 1 to 65535.',
  'lint/public-without-auth': 'A public endpoint does not say who may use it.',
  'lint/review-date': 'The date of the last review is invalid or in the future.',
  'lint/stale-review': 'The last review was too long ago.',
  'lint/url-mismatch': 'The address contradicts the host, the domain, the port or the protocol.',
} as const;

/** The subject of each kind of finding. The codes are stable: tools may match on them. */
export const RULES = {
  'encoding/bom': 'The text begins with a byte order mark, which is skipped.',
  'encoding/utf-8': 'The bytes are not valid UTF-8.',
  'encoding/utf-16': 'The text is UTF-16 or UTF-32, but JSON files are UTF-8.',
  'json/empty': 'The file contains no JSON value.',
  'json/syntax': 'The text is not JSON.',
  'json/truncated': 'The text ends before all brackets and quotes are closed.',
  'json/trailing-data': 'Something follows the end of the JSON value.',
  'json/duplicate-key': 'An object has the same key more than once.',
  'yaml/syntax': 'The text is not YAML.',
  'limit/depth': 'Values are nested deeper than the validator reads.',
  'limit/record-size': 'A record is larger than the validator reads.',
  'limit/yaml': 'A YAML text is larger, deeper or more repetitive than the validator reads.',
  'schema/type': 'A value does not have the type that the endpoint schema requires.',
  'schema/required': 'A property that the endpoint schema requires is missing.',
  'schema/enum': 'A value is not among those that the endpoint schema allows.',
  ...LINT_RULES,
} as const;

/** The code of a lint finding. */
export type LintCode = keyof typeof LINT_RULES;

/** The stable code of a finding. */
export type FindingCode = keyof typeof RULES;

/** Returns the name of a rule in configurations and baselines, and of its page. */
export function ruleName(code: LintCode): string {
  return code.slice('lint/'.length);
}

/** Returns the page of a rule in the repository and the package; null for codes that are no rules. */
export function pageOf(code: string): string | null {
  const hasPage = code in LINT_RULES || code === 'json/duplicate-key';
  return hasPage ? `docs/inventory/rules/${code.slice(code.indexOf('/') + 1)}.md` : null;
}

/** An unambiguous fix: a replacement for the JSON text at the position of a finding. */
export type Fix = { written: string; replacement: string };

/** Errors make an inventory invalid; warnings do not. */
export type Severity = 'error' | 'warning';

/** The part of the line around a position; `column` is the position in `text`. */
export type Excerpt = { text: string; column: number };

/** A finding before its file and record are known. */
export type Problem = {
  code: FindingCode;
  message: string;
  position: Position;
  /** An error by default. */
  severity?: Severity;
  related?: RelatedPlace[];
  excerpt?: Excerpt;
  fix?: Fix;
};

/** One error or warning about an inventory. */
export type Finding = {
  /** The label of the source, as given in the options. */
  file: string;
  /** JSON pointer (RFC 6901) into the document, or into the line's value for JSON Lines. */
  pointer: string;
  /** The record's `id`, if it is readable. */
  recordId: string | null;
  /** The record's 0-based index in the inventory; null when no single record is concerned. */
  recordIndex: number | null;
  severity: Severity;
} & Omit<Problem, 'position' | 'severity'> &
  Position;
