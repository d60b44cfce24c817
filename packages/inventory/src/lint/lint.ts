import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js';
import { parseDay, toDay } from '../day.ts';
import { type Finding, getRuleName, LINT_RULES, type LintCode, type Severity } from '../finding.ts';
import { JsonTextError, parseJsonText } from '../json/parser.ts';
import type { RecordInspector, PropertyProblem } from '../read/check-record.ts';
import type { InventorySource } from '../read/input.ts';
import {
  getSourceLabel,
  validateInventory,
  type ValidateOptions,
  type ValidationSummary,
} from '../read/inventory-reader.ts';
import { quoteText } from '../text.ts';
import { ADDRESS_RULES } from './address-rules.ts';
import {
  getTypedFields,
  RECORD_RULES,
  type Rule,
  type RuleContext,
  type SeenIds,
  type TypedFields,
} from './rules.ts';

const RULES_BY_CODE: Record<LintCode, Rule> = { ...RECORD_RULES, ...ADDRESS_RULES };

/** All rules, sorted by code. */
export const ALL_RULES = Object.entries(RULES_BY_CODE)
  .map(([code, rule]) => ({ code: code as LintCode, ...rule }))
  .toSorted((a, b) => (a.code < b.code ? -1 : 1));

export type LintOptions = {
  config?: LintConfig;
  /** Reference day, such as 2026-11-20. Defaults to the current day in UTC. */
  today?: string;
  /** IDs in the inventories linted so far. The IDs of this inventory are added. */
  ids?: SeenIds;
} & Omit<ValidateOptions, 'inspect'>;

/**
 * Validates an inventory and checks each record against the enabled rules (Contract 5). Yields findings in source
 * order.
 * @throws TypeError if `today` is not a day, and the errors of {@link validateInventory}.
 */
export async function* lintInventory(
  source: InventorySource,
  { config = {}, today = toDay(new Date()), ids = new Map(), ...options }: LintOptions = {},
): AsyncGenerator<Finding, ValidationSummary, undefined> {
  const day = parseDay(today);
  if (day === null) {
    throw new TypeError(`today must be a day, such as 2026-11-20, not ${quoteText(today)}`);
  }
  const context = { today: day, ids, file: getSourceLabel(source, options) };
  const { inspect, counts } = createInspection(config, context);
  const summary = yield* validateInventory(source, { ...options, inspect });
  return { ...summary, ...(counts.silenced > 0 && counts) };
}

type CodedProblem = PropertyProblem & { code: LintCode };

function createInspection(config: LintConfig, context: RuleContext) {
  const counts = { silenced: 0 };
  const rules = ALL_RULES.flatMap((rule) => resolveRule(config, rule));
  const severities = new Map<string, Severity>(rules.map(({ code, severity }) => [code, severity]));
  const inspect: RecordInspector = ({ value, isValid, position }) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
    const fields = isValid ? (value as TypedFields) : getTypedFields(value);
    const problems: CodedProblem[] = [];
    for (const rule of rules) {
      const { code, severity, options } = rule;
      const result = rule.check(fields, context, position, options);
      if (result === undefined) continue;
      for (const problem of Array.isArray(result) ? result : [result]) {
        problems.push({ ...problem, code, severity });
      }
    }
    if (!Object.hasOwn(fields, 'lint_ignore')) return problems;
    const { remainingProblems, faults } = silenceProblems(fields, problems, severities);
    counts.silenced += problems.length - remainingProblems.length;
    const severity = severities.get('lint/ignore');
    if (severity === undefined) return remainingProblems;
    const code = 'lint/ignore' as const;
    return [
      ...remainingProblems,
      ...faults.map((fault) => {
        return { key: 'lint_ignore', message: `lint_ignore ${fault}`, code, severity };
      }),
    ];
  };
  return { inspect, counts };
}

/**
 * Removes the findings that `lint_ignore` silences. `lint_ignore` is a list of `{ "rule": NAME, "reason": TEXT }`.
 * @param enabledRules Enabled rules by code. Entries of `lint_ignore` for other rules are not reported as unused.
 * @returns The remaining findings, and the faults of `lint_ignore` itself.
 */
function silenceProblems(
  { lint_ignore: lintIgnore }: TypedFields,
  problems: readonly CodedProblem[],
  enabledRules: ReadonlyMap<string, unknown>,
): { remainingProblems: CodedProblem[]; faults: string[] } {
  const silencedCodes = new Set<string>();
  const faults = (Array.isArray(lintIgnore) ? lintIgnore : [lintIgnore]).flatMap(
    (entry: unknown) => {
      const { rule, reason } = Object(entry);
      const code = `lint/${rule}`;
      if (typeof rule !== 'string') return ['must be a list of objects with "rule" and "reason"'];
      if (!(code in LINT_RULES) || code === 'lint/ignore') {
        return [
          `names ${quoteText(rule)}, which is not a rule that can be silenced; correct or remove it`,
        ];
      }
      if (typeof reason !== 'string' || reason.trim() === '') {
        return [`has no reason for ${quoteText(rule)}; state in reason why it is silenced`];
      }
      if (enabledRules.has(code) && !problems.some((problem) => problem.code === code)) {
        return [`silences ${quoteText(rule)}, which finds nothing here; remove it`];
      }
      silencedCodes.add(code);
      return [];
    },
  );
  return { remainingProblems: problems.filter(({ code }) => !silencedCodes.has(code)), faults };
}

/** Setting of a rule: off, a severity, or an object with options. */
type RuleSetting = 'off' | Severity | ({ severity?: 'off' | Severity } & Record<string, unknown>);

/** Contents of inventory.config.json. Rule names omit the prefix `lint/`. */
export type LintConfig = { $schema?: string; rules?: Partial<Record<string, RuleSetting>> };

const SEVERITY_SCHEMA = { enum: ['off', 'warning', 'error'] };

function createSettingSchema({ options }: Rule): object {
  const properties = { severity: SEVERITY_SCHEMA, ...options };
  return { anyOf: [SEVERITY_SCHEMA, { type: 'object', properties, additionalProperties: false }] };
}

/** JSON Schema (draft 2020-12) of inventory.config.json. */
export const CONFIG_SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: 'inventory.config.schema.json',
  title: 'Configuration of oselya inventory lint',
  type: 'object',
  properties: {
    $schema: { type: 'string' },
    rules: {
      type: 'object',
      description: 'For each rule "off", "warning", "error", or an object with its options.',
      properties: Object.fromEntries(
        ALL_RULES.map((rule) => [getRuleName(rule.code), createSettingSchema(rule)]),
      ),
      additionalProperties: false,
    },
  },
  additionalProperties: false,
};

const isConfig = new Ajv2020({ allErrors: true }).compile<LintConfig>(CONFIG_SCHEMA);

/** Thrown for an invalid configuration or baseline. The one-line message names the error and its remedy. */
export class ConfigError extends Error {
  override name = 'ConfigError';
}

/**
 * Parses inventory.config.json.
 * @param file File name for messages.
 * @throws ConfigError for invalid JSON and for an invalid configuration.
 */
export function parseConfig(text: string, file: string): LintConfig {
  let value: unknown;
  try {
    value = parseJsonText(text);
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    const advice = error.isTooDeep ? '' : '; correct it, or begin with {}';
    throw new ConfigError(`${file}:${error.message}${advice}`, { cause: error });
  }
  if (isConfig(value)) return value;
  throw new ConfigError(`${file}: ${describeConfigError(isConfig.errors ?? [], value)}`);
}

/** Returns a list with the configured rule, or an empty list if the rule is off. */
function resolveRule({ rules: settings = {} }: LintConfig, rule: (typeof ALL_RULES)[number]) {
  const setting = settings[getRuleName(rule.code)] ?? rule.severity;
  const { severity = rule.severity, ...options } =
    typeof setting === 'string' ? { severity: setting } : setting;
  if (severity === 'off') return [];
  return [{ ...rule, severity, options: { ...Object(rule.defaults), ...options } }];
}

function describeConfigError(errors: readonly ErrorObject[], value: unknown): string {
  // A setting is a word or an object. Errors about the other form are irrelevant.
  const error = errors.find(({ keyword }) => keyword === 'additionalProperties');
  if (error !== undefined) {
    const name: unknown = error.params['additionalProperty'];
    if (error.instancePath !== '/rules') {
      return `${error.instancePath || 'the configuration'} has no ${JSON.stringify(name)}; remove it`;
    }
    if (name === 'duplicate-key') {
      return 'repeated keys are always errors, also of validate; remove "duplicate-key"';
    }
    const names = ALL_RULES.map(({ code }) => getRuleName(code)).join(', ');
    return `there is no rule ${JSON.stringify(name)}; the rules are ${names}`;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return 'a configuration is an object, such as {"rules": {"missing-owner": "off"}}';
  }
  const depths = errors.map(({ instancePath }) => instancePath.split('/').length);
  const deepestError = errors[depths.indexOf(Math.max(...depths))];
  const path = deepestError?.instancePath ?? '';
  return /^\/rules\/[^/]+(\/severity)?$/.test(path)
    ? `${path} must be "off", "warning", "error", or an object with options`
    : `${path} ${deepestError?.message ?? 'is invalid'}`;
}
