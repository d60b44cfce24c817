import { LINT_RULES } from '../rule-ids.ts';
import { quoted } from '../shorten.ts';
import type { Fields, Found } from './rule.ts';

/**
 * Silences findings of a record by its `lint_ignore`: a list of `{ "rule": NAME, "reason": TEXT }`.
 * @param problems The findings of the record.
 * @param active The codes of the rules that are on: an entry for one that is off may be needed elsewhere.
 * @returns The findings that are left, and what is wrong with `lint_ignore` itself.
 */
export function silence<T extends { code: string }>(
  { lint_ignore: written }: Fields,
  problems: readonly T[],
  active: ReadonlySet<string>,
): { left: T[]; faults: Found[] } {
  const silenced = new Set<string>();
  const faults = (Array.isArray(written) ? written : [written]).flatMap((entry: unknown) => {
    const { rule, reason } = Object(entry);
    const code = `lint/${rule}`;
    if (typeof rule !== 'string') return ['is a list of objects with "rule" and "reason"'];
    if (!(code in LINT_RULES) || code === 'lint/ignore') {
      return [`names ${quoted(rule)}, which is no rule that can be silenced; correct or remove it`];
    }
    if (typeof reason !== 'string' || reason.trim() === '') {
      return [`has no reason for ${quoted(rule)}; say in reason why it is silenced`];
    }
    if (active.has(code) && !problems.some((problem) => problem.code === code)) {
      return [`silences ${quoted(rule)}, which finds nothing here; remove it`];
    }
    silenced.add(code);
    return [];
  });
  return {
    left: problems.filter(({ code }) => !silenced.has(code)),
    faults: faults.map((fault) => ({ key: 'lint_ignore', message: `lint_ignore ${fault}` })),
  };
}
