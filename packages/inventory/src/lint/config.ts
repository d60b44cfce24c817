import { Ajv2020 } from 'ajv/dist/2020.js';
import type { ErrorObject } from 'ajv/dist/2020.js';
import { ruleName, type Severity } from '../finding.ts';
import { JsonTextError, parseJsonText } from '../json/parser.ts';
import type { Rule } from './rule.ts';
import { rules } from './rules.ts';

/** The setting of one rule: off, a severity, or an object with options. */
type Setting = 'off' | Severity | ({ severity?: 'off' | Severity } & Record<string, unknown>);

/** The contents of inventory.config.json; rules are named without `lint/`. */
export type LintConfig = {
  $schema?: string;
  rules?: Partial<Record<string, Setting>>;
};

const SEVERITY = { enum: ['off', 'warning', 'error'] };

function schemaOf({ options }: Rule): object {
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
      properties: Object.fromEntries(rules.map((rule) => [ruleName(rule.code), schemaOf(rule)])),
      additionalProperties: false,
    },
  },
  additionalProperties: false,
};

const isConfig = new Ajv2020({ allErrors: true }).compile<LintConfig>(CONFIG_SCHEMA);

/** Thrown for an unusable configuration. The message is one line: what is wrong and what to do. */
export class ConfigError extends Error {
  override name = 'ConfigError';
}

/**
 * Parses the text of inventory.config.json.
 * @param file The name of the file in messages.
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

/** Returns the severity of a rule, null when it is off, and its options. */
export function settingOf(
  { rules: settings = {} }: LintConfig,
  { code, severity: usual, defaults }: Rule,
): { severity: Severity | null; options: object } {
  const setting = settings[ruleName(code)] ?? usual;
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
  // A setting has two forms, and the errors of the other one are irrelevant.
  const error = errors.find(({ keyword }) => keyword === 'additionalProperties');
  const name: unknown = error?.params['additionalProperty'];
  if (error !== undefined && error.instancePath === '/rules') {
    if (name === 'duplicate-key') {
      return 'repeated keys are always errors, also of validate; remove "duplicate-key"';
    }
    const names = rules.map(({ code }) => ruleName(code)).join(', ');
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
