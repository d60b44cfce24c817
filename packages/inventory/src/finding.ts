/** Text position. Lines and columns are 1-based. Columns count Unicode code points. */
export type Position = { line: number; column: number };

/** Related position that explains a finding, such as the first of two identical keys. */
export type RelatedLocation = {
  message: string;
  file?: string;
} & Position;

/** Descriptions of the lint rules by code. Each rule has a page in docs/inventory/rules/. */
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

/** Descriptions of findings by code. The codes are stable, because tools depend on them. */
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

export type LintCode = keyof typeof LINT_RULES;

export type FindingCode = keyof typeof RULES;

/** Returns the rule name in configurations, `lint_ignore` and documentation pages. Baselines contain the code. */
export function getRuleName(code: LintCode): string {
  return code.slice('lint/'.length);
}

/** Returns the documentation page for a finding code, or null for codes without a page. */
export function getRulePage(code: string): string | null {
  const hasPage = code in LINT_RULES || code === 'json/duplicate-key';
  return hasPage ? `docs/inventory/rules/${code.slice(code.indexOf('/') + 1)}.md` : null;
}

/** Replacement for the text at the position of a finding. */
export type Fix = { written: string; replacement: string };

/** Errors make an inventory invalid; warnings do not. */
export type Severity = 'error' | 'warning';

/** Part of a line around a position. `column` is the 1-based position within `text`, in code points. */
export type Excerpt = { text: string; column: number };

/** Finding without its file and record. */
export type Problem = {
  code: FindingCode;
  message: string;
  position: Position;
  /** Defaults to `error`. */
  severity?: Severity;
  related?: RelatedLocation[];
  excerpt?: Excerpt;
  fix?: Fix;
};

/** One error or warning about an inventory. */
export type Finding = {
  /** Source label. */
  file: string;
  /** JSON pointer (RFC 6901) into the document, or into the line's value for JSON Lines. */
  pointer: string;
  /** The record's `id`. Null if it is not readable. */
  recordId: string | null;
  /** The record's 0-based index in the inventory. Null if the finding concerns no single record. */
  recordIndex: number | null;
  severity: Severity;
} & Omit<Problem, 'position' | 'severity'> &
  Position;
