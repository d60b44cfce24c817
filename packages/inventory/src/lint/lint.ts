import { Ajv2020 } from 'ajv/dist/2020.js';
import type { ErrorObject } from 'ajv/dist/2020.js';
import { parseDay, toDay } from '../day.ts';
import { type Finding, LINT_RULES, type LintCode, getRuleName, type Severity } from '../finding.ts';
import { JsonTextError, parseJsonText } from '../json/parser.ts';
import type { Inspect, PropertyProblem } from '../read/check-record.ts';
import type { InventorySource } from '../read/input.ts';
import {
  getSourceLabel,
  validateInventory,
  type ValidateOptions,
  type ValidationSummary,
} from '../read/inventory-reader.ts';
import { quoteText } from '../text.ts';
import { addressRules } from './address-rules.ts';
import {
  type TypedFields,
  getTypedFields,
  type RuleProblem,
  type SeenIds,
  recordRules,
  type Rule,
  type RuleContext,
} from './rules.ts';

/** All rules in the order of their codes. */
export const allRules: readonly Rule[] = [...recordRules, ...addressRules].toSorted((a, b) =>
  a.code < b.code ? -1 : 1,
);

export type LintOptions = {
  config?: LintConfig;
  /** Reference day, such as 2026-11-20. Defaults to the current day in UTC. */
  today?: string;
  /** Ids of previously linted inventories. The ids of this inventory are added. */
  ids?: SeenIds;
} & Omit<ValidateOptions, 'inspect'>;

/**
 * Validates an inventory and checks each record against the enabled rules (Contract 5). Yields findings in the order
 * of the source.
 * @throws TypeError if `today` is not a day.
 */
export async function* lintInventory(
  source: InventorySource,
  { config = {}, today = toDay(new Date()), ids = new Map(), ...options }: LintOptions = {},
): AsyncGenerator<Finding, ValidationSummary, undefined> {
  const day = parseDay(today);
  if (day === null)
    throw new TypeError(`today is a day, such as 2026-11-20, not ${quoteText(today)}`);
  const context = { today: day, ids, file: getSourceLabel(source, options) };
  const { inspect, counts } = createInspection(config, context);
  const summary = yield* validateInventory(source, { ...options, inspect });
  return { ...summary, ...(counts.silenced > 0 && counts) };
}

const NOTHING: readonly PropertyProblem[] = [];

function createInspection(config: LintConfig, context: RuleContext) {
  const counts = { silenced: 0 };
  const checks = allRules.flatMap((rule) => {
    const { severity, options } = resolveSetting(config, rule);
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
    const fields = isValid ? (value as TypedFields) : getTypedFields(value);
    const problems: (PropertyProblem & { code: LintCode })[] = [];
    for (const { code, severity, check } of checks) {
      for (const found of check(fields, record)) problems.push({ ...found, code, severity });
    }
    if (!Object.hasOwn(fields, 'lint_ignore')) return problems;
    const { left, faults } = silenceProblems(fields, problems, active);
    counts.silenced += problems.length - left.length;
    const severity = active.get('lint/ignore');
    if (severity === undefined) return left;
    return [...left, ...faults.map((one) => ({ ...one, code: 'lint/ignore' as const, severity }))];
  };
  return { inspect, counts };
}

/**
 * Removes the findings that `lint_ignore` silences, a list of `{ "rule": NAME, "reason": TEXT }`.
 * @param active Enabled rules. Entries for disabled rules are not reported as unused.
 * @returns The remaining findings, and the problems of `lint_ignore` itself.
 */
function silenceProblems<T extends { code: string }>(
  { lint_ignore: written }: TypedFields,
  problems: readonly T[],
  active: ReadonlyMap<string, unknown>,
): { left: T[]; faults: RuleProblem[] } {
  const silenced = new Set<string>();
  const faults = (Array.isArray(written) ? written : [written]).flatMap((entry: unknown) => {
    const { rule, reason } = Object(entry);
    const code = `lint/${rule}`;
    if (typeof rule !== 'string') return ['must be a list of objects with "rule" and "reason"'];
    if (!(code in LINT_RULES) || code === 'lint/ignore') {
      return [
        `names ${quoteText(rule)}, which is no rule that can be silenced; correct or remove it`,
      ];
    }
    if (typeof reason !== 'string' || reason.trim() === '') {
      return [`has no reason for ${quoteText(rule)}; state in reason why it is silenced`];
    }
    if (active.has(code) && !problems.some((problem) => problem.code === code)) {
      return [`silences ${quoteText(rule)}, which finds nothing here; remove it`];
    }
    silenced.add(code);
    return [];
  });
  return {
    left: problems.filter(({ code }) => !silenced.has(code)),
    faults: faults.map((fault) => ({ key: 'lint_ignore', message: `lint_ignore ${fault}` })),
  };
}

/** Setting of a rule: off, a severity, or an object with options. */
type Setting = 'off' | Severity | ({ severity?: 'off' | Severity } & Record<string, unknown>);

/** Contents of inventory.config.json. Rule names omit the prefix `lint/`. */
export type LintConfig = {
  $schema?: string;
  rules?: Partial<Record<string, Setting>>;
};

const SEVERITY = { enum: ['off', 'warning', 'error'] };

function createSettingSchema({ options }: Rule): object {
  const properties = { severity: SEVERITY, ...options };
  return { anyOf: [SEVERITY, { type: 'object', properties, additionalProperties: false }] };
}

/** The JSON Schema (draft 2020-12) of inventory.config.json. */
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
        allRules.map((rule) => [getRuleName(rule.code), createSettingSchema(rule)]),
      ),
      additionalProperties: false,
    },
  },
  additionalProperties: false,
};

const isConfig = new Ajv2020({ allErrors: true }).compile<LintConfig>(CONFIG_SCHEMA);

/** Thrown for an invalid configuration. The one-line message names the error and its remedy. */
export class ConfigError extends Error {
  override name = 'ConfigError';
}

/**
 * Parses the text of inventory.config.json.
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
  throw new ConfigError(`${file}: ${describe(isConfig.errors ?? [], value)}`);
}

/** Returns the severity and the options of a rule. The severity is null if the rule is off. */
function resolveSetting(
  { rules: settings = {} }: LintConfig,
  { code, severity: usual, defaults }: Rule,
): { severity: Severity | null; options: object } {
  const setting = settings[getRuleName(code)] ?? usual;
  const { severity = usual, ...options } =
    typeof setting === 'string' ? { severity: setting } : setting;
  return {
    severity: severity === 'off' ? null : severity,
    options: { ...Object(defaults), ...options },
  };
}

function depth({ instancePath }: ErrorObject): number {
  return instancePath.split('/').length;
}

function describe(errors: readonly ErrorObject[], value: unknown): string {
  // A setting has two forms. Errors about the other form are irrelevant.
  const error = errors.find(({ keyword }) => keyword === 'additionalProperties');
  const name: unknown = error?.params['additionalProperty'];
  if (error !== undefined && error.instancePath === '/rules') {
    if (name === 'duplicate-key') {
      return 'repeated keys are always errors, also of validate; remove "duplicate-key"';
    }
    const names = allRules.map(({ code }) => getRuleName(code)).join(', ');
    return `there is no rule ${JSON.stringify(name)}; the rules are ${names}`;
  }
  if (error !== undefined) {
    return `${error.instancePath || 'the configuration'} has no ${JSON.stringify(name)}; remove it`;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return 'a configuration is an object, such as {"rules": {"missing-owner": "off"}}';
  }
  const [deepest] = errors.toSorted((a, b) => depth(b) - depth(a));
  const path = deepest?.instancePath ?? '';
  if (/^\/rules\/[^/]+(\/severity)?$/.test(path)) {
    return `${path} must be "off", "warning", "error", or an object with options`;
  }
  return `${path} ${deepest?.message ?? 'is invalid'}`;
}
