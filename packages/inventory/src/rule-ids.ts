/** What each rule of the linter is about; docs/inventory/rules/ has a page for each. */
export const LINT_RULES = {
  'lint/blank-field': 'A property is there, but says nothing.',
  'lint/credentials-in-url': 'A user name, a password or a secret parameter stands in an address.',
  'lint/duplicate-id': 'Two records have the same id.',
  'lint/exposure-address': 'The declared exposure and the address contradict each other.',
  'lint/host-name': 'A host or domain is neither a name nor an address by itself.',
  'lint/ignore': 'A record silences a finding without a reason, or one that is not there.',
  'lint/likely-typo': 'The name of an extra property is almost that of a known one.',
  'lint/missing-owner': 'Nobody is named who runs the endpoint.',
  'lint/port-range': 'A port is none that can be listened on.',
  'lint/public-without-auth': 'Anybody can reach the endpoint, and nothing says who may use it.',
  'lint/review-date': 'The date of the last review is no date, or has not come yet.',
  'lint/stale-review': 'The last review was too long ago.',
  'lint/url-mismatch': 'The address contradicts the host, the domain, the port or the protocol.',
} as const;

/** The code of a finding of the linter. */
export type LintCode = keyof typeof LINT_RULES;

/** Rules that judge records, and stand among those of JSON, as no configuration turns them off. */
const OTHERS_WITH_PAGES = new Set(['json/duplicate-key']);

/** The page of a rule in this repository and in the package; null for what is no rule, such as text that is no JSON. */
export function pageOf(code: string): string | null {
  const hasPage = code in LINT_RULES || OTHERS_WITH_PAGES.has(code);
  return hasPage ? `docs/inventory/rules/${code.slice(code.indexOf('/') + 1)}.md` : null;
}

/** The name of a rule in configurations and baselines, and of its page. */
export function ruleName(code: LintCode): string {
  return code.slice('lint/'.length);
}
