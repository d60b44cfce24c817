import type { Inspect } from '../check/check-record.ts';
import type { Finding } from '../finding.ts';
import type { InventorySource } from '../input/source.ts';
import {
  validateInventory,
  type ValidateOptions,
  type ValidationSummary,
} from '../check/validate.ts';
import { type LintConfig, settingOf } from './config.ts';
import { type Day, readDay, toDay } from '../day.ts';
import { quoted } from '../shorten.ts';
import { fieldsOf } from './fields.ts';
import { rules } from './rules/index.ts';

export type LintOptions = {
  config?: LintConfig;
  /** The day against which reviews are judged, such as 2026-11-20; today in UTC unless told. */
  today?: string;
} & Omit<ValidateOptions, 'inspect'>;

/**
 * Validates an inventory and judges each of its records by the rules that are not off (Contract 5). The
 * findings come as those of `validateInventory` do, in the order of the source.
 * @throws TypeError for a `today` that is no day.
 */
export function lintInventory(
  source: InventorySource,
  { config = {}, today = toDay(new Date()), ...options }: LintOptions = {},
): AsyncGenerator<Finding, ValidationSummary, undefined> {
  const day = readDay(today);
  if (day === null) throw new TypeError(`today is a day, such as 2026-11-20, not ${quoted(today)}`);
  return validateInventory(source, { ...options, inspect: inspection(config, day) });
}

function inspection(config: LintConfig, today: Day): Inspect {
  const looks = rules.flatMap((rule) => {
    const { severity, options } = settingOf(config, rule);
    return severity === null
      ? []
      : [{ code: rule.code, severity, look: rule.begin(options, { today }) }];
  });
  return (record) => {
    // What is no object is the schema's concern alone.
    const { value } = record;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
    const fields = fieldsOf(value);
    return looks.flatMap(({ code, severity, look }) =>
      Array.from(look(fields, record), (found) => ({ ...found, code, severity })),
    );
  };
}
