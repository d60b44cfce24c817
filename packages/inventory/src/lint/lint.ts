import { readDay, toDay } from '../day.ts';
import { type Finding, LINT_RULES, type LintCode } from '../finding.ts';
import type { Inspect, PropertyProblem } from '../read/check-record.ts';
import type { InventorySource } from '../read/input.ts';
import {
  labelOf,
  validateInventory,
  type ValidateOptions,
  type ValidationSummary,
} from '../read/inventory-reader.ts';
import { quoted } from '../text.ts';
import { type LintConfig, settingOf } from './config.ts';
import { type Fields, fieldsOf, type Found, type Ids, type RuleContext } from './rule.ts';
import { rules } from './rules.ts';

export type LintOptions = {
  config?: LintConfig;
  /** The day of the lint, such as 2026-11-20; today in UTC by default. */
  today?: string;
  /** The ids of inventories that were linted before; those of this one are added. */
  ids?: Ids;
} & Omit<ValidateOptions, 'inspect'>;

/**
 * Validates an inventory and judges each record by the rules that are on (Contract 5). Findings come in the order
 * of the source.
 * @throws TypeError for a `today` that is not a day.
 */
export function lintInventory(
  source: InventorySource,
  { config = {}, today = toDay(new Date()), ids = new Map(), ...options }: LintOptions = {},
): AsyncGenerator<Finding, ValidationSummary, undefined> {
  const day = readDay(today);
  if (day === null) throw new TypeError(`today is a day, such as 2026-11-20, not ${quoted(today)}`);
  const context = { today: day, ids, file: labelOf(source, options) };
  return lint(source, options, inspectionBy(config, context));
}

type Inspection = { inspect: Inspect; counts: { silenced: number } };

async function* lint(
  source: InventorySource,
  options: ValidateOptions,
  { inspect, counts }: Inspection,
): AsyncGenerator<Finding, ValidationSummary, undefined> {
  const summary = yield* validateInventory(source, { ...options, inspect });
  return { ...summary, ...(counts.silenced > 0 && counts) };
}

const NOTHING: readonly PropertyProblem[] = [];

function inspectionBy(config: LintConfig, context: RuleContext): Inspection {
  const counts = { silenced: 0 };
  const checks = rules.flatMap((rule) => {
    const { severity, options } = settingOf(config, rule);
    return severity === null
      ? []
      : [{ code: rule.code, severity, check: rule.create(context, options) }];
  });
  const active = new Map<string, (typeof checks)[number]['severity']>(
    checks.map(({ code, severity }) => [code, severity]),
  );
  const inspect: Inspect = (record) => {
    const { value, isValid } = record;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return NOTHING;
    const fields = isValid ? (value as Fields) : fieldsOf(value);
    const problems: (PropertyProblem & { code: LintCode })[] = [];
    for (const { code, severity, check } of checks) {
      for (const found of check(fields, record)) problems.push({ ...found, code, severity });
    }
    if (!Object.hasOwn(fields, 'lint_ignore')) return problems;
    const { left, faults } = silence(fields, problems, active);
    counts.silenced += problems.length - left.length;
    const severity = active.get('lint/ignore');
    if (severity === undefined) return left;
    return [...left, ...faults.map((one) => ({ ...one, code: 'lint/ignore' as const, severity }))];
  };
  return { inspect, counts };
}

/**
 * Silences findings of a record by its `lint_ignore`, a list of `{ "rule": NAME, "reason": TEXT }`.
 * @param active The rules that are on: an entry for one that is off may be needed by another run.
 * @returns The findings that remain, and the problems of `lint_ignore` itself.
 */
function silence<T extends { code: string }>(
  { lint_ignore: written }: Fields,
  problems: readonly T[],
  active: ReadonlyMap<string, unknown>,
): { left: T[]; faults: Found[] } {
  const silenced = new Set<string>();
  const faults = (Array.isArray(written) ? written : [written]).flatMap((entry: unknown) => {
    const { rule, reason } = Object(entry);
    const code = `lint/${rule}`;
    if (typeof rule !== 'string') return ['must be a list of objects with "rule" and "reason"'];
    if (!(code in LINT_RULES) || code === 'lint/ignore') {
      return [`names ${quoted(rule)}, which is no rule that can be silenced; correct or remove it`];
    }
    if (typeof reason !== 'string' || reason.trim() === '') {
      return [`has no reason for ${quoted(rule)}; state in reason why it is silenced`];
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
