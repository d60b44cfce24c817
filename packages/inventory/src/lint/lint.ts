import type { Inspect, PropertyProblem } from '../check/check-record.ts';
import type { Finding } from '../finding.ts';
import type { InventorySource } from '../input/source.ts';
import {
  validateInventory,
  type ValidateOptions,
  type ValidationSummary,
} from '../check/validate.ts';
import type { LintCode } from '../rule-ids.ts';
import { labelOf } from '../check/inventory-reader.ts';
import { type LintConfig, settingOf } from './config.ts';
import { readDay, toDay } from '../day.ts';
import { quoted } from '../shorten.ts';
import { fieldsOf } from './fields.ts';
import { IdRegister } from './id-register.ts';
import type { Context, Fields } from './rule.ts';
import { rules } from './rules/index.ts';
import { silence } from './silence.ts';

export type LintOptions = {
  config?: LintConfig;
  /** The day against which reviews are judged, such as 2026-11-20; today in UTC unless told. */
  today?: string;
  /** Ids of inventories that were linted before; those of this one are added to it. */
  ids?: IdRegister;
} & Omit<ValidateOptions, 'inspect'>;

/**
 * Validates an inventory and judges each of its records by the rules that are not off (Contract 5). The
 * findings come as those of `validateInventory` do, in the order of the source.
 * @throws TypeError for a `today` that is no day.
 */
export function lintInventory(
  source: InventorySource,
  { config = {}, today = toDay(new Date()), ids = new IdRegister(), ...options }: LintOptions = {},
): AsyncGenerator<Finding, ValidationSummary, undefined> {
  const day = readDay(today);
  if (day === null) throw new TypeError(`today is a day, such as 2026-11-20, not ${quoted(today)}`);
  const context = { today: day, ids, file: labelOf(source, options) };
  return lint(source, options, inspection(config, context));
}

async function* lint(
  source: InventorySource,
  options: ValidateOptions,
  { inspect, counts }: Inspection,
): AsyncGenerator<Finding, ValidationSummary, undefined> {
  const summary = yield* validateInventory(source, { ...options, inspect });
  return { ...summary, ...(counts.silenced > 0 && counts) };
}

type Inspection = { inspect: Inspect; counts: { silenced: number } };

const NOTHING: readonly PropertyProblem[] = [];

function inspection(config: LintConfig, context: Context): Inspection {
  const counts = { silenced: 0 };
  const looks = rules.flatMap((rule) => {
    const { severity, options } = settingOf(config, rule);
    return severity === null
      ? []
      : [{ code: rule.code, severity, look: rule.begin(options, context) }];
  });
  const active = new Map(looks.map(({ code, severity }) => [code as string, severity]));
  const inspect: Inspect = (record) => {
    // What is no object is the schema's concern alone.
    const { value, isValid } = record;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return NOTHING;
    const fields = isValid ? (value as Fields) : fieldsOf(value);
    const problems: (PropertyProblem & { code: LintCode })[] = [];
    for (const { code, severity, look } of looks) {
      for (const found of look(fields, record)) problems.push({ ...found, code, severity });
    }
    if (!Object.hasOwn(fields, 'lint_ignore')) return problems;
    const { left, faults } = silence(fields, problems, new Set(active.keys()));
    counts.silenced += problems.length - left.length;
    const severity = active.get('lint/ignore');
    if (severity === undefined) return left;
    return [...left, ...faults.map((one) => ({ ...one, code: 'lint/ignore' as const, severity }))];
  };
  return { inspect, counts };
}
