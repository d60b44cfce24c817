import { Ajv2020 } from 'ajv/dist/2020.js';
import type { ErrorObject } from 'ajv/dist/2020.js';
import type { Severity } from '../finding.ts';
import { type LintCode, ruleName } from '../rule-ids.ts';
import { JsonTextError, parseJsonText } from './json-text.ts';
import { rules } from './rules/index.ts';

/** What is set for one rule: off, how bad it is, or that and its options. */
type Setting = 'off' | Severity | ({ severity?: 'off' | Severity } & Record<string, unknown>);

/** The contents of inventory.config.json; each rule is named without `lint/`. */
export type LintConfig = {
  $schema?: string;
  rules?: Partial<Record<string, Setting>>;
};

const SEVERITY = { enum: ['off', 'warning', 'error'] };

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
        rules.map(({ code, options }) => [
          ruleName(code),
          {
            anyOf: [
              SEVERITY,
              {
                type: 'object',
                properties: { severity: SEVERITY, ...options },
                additionalProperties: false,
              },
            ],
          },
        ]),
      ),
      additionalProperties: false,
    },
  },
  additionalProperties: false,
};

const isConfig = new Ajv2020({ allErrors: true }).compile<LintConfig>(CONFIG_SCHEMA);

/** The configuration cannot be used. The message is one line: what is wrong and what to do. */
export class ConfigError extends Error {
  override name = 'ConfigError';
}

/**
 * Reads the text of inventory.config.json.
 * @param file How messages name it.
 * @throws ConfigError for what is no JSON or no configuration.
 */
export function parseConfig(text: string, file: string): LintConfig {
  let value: unknown;
  try {
    value = parseJsonText(text);
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    const advice = error.isTooDeep ? '' : '; mend it, or begin with {}';
    throw new ConfigError(`${file}:${error.message}${advice}`, { cause: error });
  }
  if (isConfig(value)) return value;
  throw new ConfigError(`${file}: ${describe(isConfig.errors ?? [], value)}`);
}

/** What is set for a rule: its severity, null when it is off, and its options. */
export function settingOf(
  { rules: settings = {} }: LintConfig,
  { code, severity: usual }: { code: LintCode; severity: Severity },
): { severity: Severity | null; options: object } {
  const setting = settings[ruleName(code)] ?? usual;
  const { severity = usual, ...options } =
    typeof setting === 'string' ? { severity: setting } : setting;
  return { severity: severity === 'off' ? null : severity, options };
}

function describe(errors: readonly ErrorObject[], value: unknown): string {
  // Of the two forms that a setting has, the other one's errors say nothing.
  const error = errors.find(({ keyword }) => keyword === 'additionalProperties');
  const name: unknown = error?.params['additionalProperty'];
  if (error !== undefined && error.instancePath === '/rules') {
    if (name === 'duplicate-key') {
      return 'repeated keys are errors of validate as well, and nothing turns them off; remove "duplicate-key"';
    }
    const names = rules.map(({ code }) => ruleName(code)).join(', ');
    return `there is no rule ${JSON.stringify(name)}; the rules are ${names}`;
  }
  if (error !== undefined) {
    const where = error.instancePath === '' ? 'the configuration' : error.instancePath;
    return `${where} has no ${JSON.stringify(name)}; remove it`;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return 'a configuration is an object, such as {"rules": {"missing-owner": "off"}}';
  }
  const deepest = errors.toSorted((a, b) => depth(b) - depth(a))[0];
  const of = deepest?.instancePath ?? '';
  if (/^\/rules\/[^/]+(\/severity)?$/.test(of)) {
    return `${of} must be "off", "warning", "error", or an object with options`;
  }
  return `${of} ${deepest?.message ?? 'is wrong'}`;
}

function depth({ instancePath }: ErrorObject): number {
  return instancePath.split('/').length;
}
