import type { Inspect, PropertyProblem } from '../check/check-record.ts';
import type { Finding } from '../finding.ts';
import type { InventorySource } from '../input/source.ts';
import {
  validateInventory,
  type ValidateOptions,
  type ValidationSummary,
} from '../check/validate.ts';
import { labelOf } from '../check/inventory-reader.ts';
import { type LintConfig, settingOf } from './config.ts';
import { readDay, toDay } from '../day.ts';
import { quoted } from '../shorten.ts';
import { fieldsOf } from './fields.ts';
import { IdRegister } from './id-register.ts';
import type { Context, Fields } from './rule.ts';
import { rules } from './rules/index.ts';

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
  return validateInventory(source, {
    ...options,
    inspect: inspection(config, { today: day, ids, file: labelOf(source, options) }),
  });
}

const NOTHING: readonly PropertyProblem[] = [];

function inspection(config: LintConfig, context: Context): Inspect {
  const looks = rules.flatMap((rule) => {
    const { severity, options } = settingOf(config, rule);
    return severity === null
      ? []
      : [{ code: rule.code, severity, look: rule.begin(options, context) }];
  });
  return (record) => {
    // What is no object is the schema's concern alone.
    const { value, isValid } = record;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return NOTHING;
    const fields = isValid ? (value as Fields) : fieldsOf(value);
    let problems = NOTHING;
    for (const { code, severity, look } of looks) {
      const found = look(fields, record);
      if (found.length === 0) continue;
      problems = [...problems, ...found.map((one) => ({ ...one, code, severity }))];
    }
    return problems;
  };
}
