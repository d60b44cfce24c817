import type { Static, TObject, TSchema } from 'typebox';
import { Value } from 'typebox/value';
import { StartError } from './process.ts';

/** Thrown for an invalid configuration. The message lists each variable with its first violated rule, not its value. */
export class ConfigError extends StartError {
  override readonly name = 'ConfigError';
  readonly problems: ReadonlyMap<string, string>;

  constructor(problems: readonly (readonly [variable: string, rule: string])[]) {
    const ruleByVariable = new Map<string, string>();
    for (const [variable, rule] of problems)
      ruleByVariable.set(variable, ruleByVariable.get(variable) ?? rule);
    const lines = [...ruleByVariable].map(([variable, rule]) => `  ${variable} ${rule}`);
    super(`Configuration value error:\n${lines.join('\n')}`);
    this.problems = ruleByVariable;
  }
}

/**
 * Rule for several variables. Returns each violating variable with a description of the rule. `values` omits variables
 * that are invalid, or unset without a default.
 */
export type ConfigRule<Schema extends TObject> = (
  values: Partial<Static<Schema>>,
) => readonly (readonly [variable: keyof Static<Schema> & string, rule: string])[];

/**
 * Reads a configuration from environment variables. Treats empty variables as unset.
 * @param schema Object schema whose keys are variable names.
 * @throws ConfigError with all missing and invalid variables. Contract 1.
 */
export function loadConfig<Schema extends TObject>(
  schema: Schema,
  env: Readonly<Record<string, string | undefined>>,
  rules: readonly ConfigRule<Schema>[] = [],
): Static<Schema> {
  const requiredNames = new Set<string>(schema.required ?? []);
  const config: Record<string, unknown> = {};
  const problems: (readonly [string, string])[] = [];
  for (const [name, field] of Object.entries<FieldSchema>(schema.properties)) {
    const rawValue = env[name]?.trim();
    const value =
      rawValue === undefined || rawValue === ''
        ? structuredClone(field.default)
        : parseValue(field, rawValue);
    if (value === undefined) {
      if (requiredNames.has(name)) problems.push([name, `is not set: it ${describeRule(field)}`]);
    } else if (Value.Check(field, value)) config[name] = value;
    else problems.push([name, describeRule(field)]);
  }
  // The rules get a partial configuration, because variables may be missing or invalid.
  problems.push(...rules.flatMap((rule) => rule(config as Partial<Static<Schema>>)));
  if (problems.length > 0) throw new ConfigError(problems);
  return config as Static<Schema>;
}

/**
 * Loads several configurations in order, and reports all problems in one error.
 * @throws ConfigError with all missing and invalid variables. Rethrows other errors immediately.
 */
export function loadConfigs<Configs extends readonly unknown[]>(
  ...loaders: { readonly [Index in keyof Configs]: () => Configs[Index] }
): Configs {
  const configs: unknown[] = [];
  const problems: [string, string][] = [];
  for (const load of loaders) {
    try {
      configs.push(load());
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      problems.push(...error.problems);
    }
  }
  if (problems.length > 0) throw new ConfigError(problems);
  // There are no problems, so each loader returned its configuration.
  return configs as unknown as Configs;
}

/** Field schema with the JSON Schema keywords that configurations use. */
type FieldSchema = TSchema & {
  type?: string;
  default?: unknown;
  minimum?: number;
  maximum?: number;
  pattern?: string;
  anyOf?: { const?: unknown }[];
  description?: string;
};

const TRUE_VALUES = new Set(['true', '1', 'yes', 'on']);
const FALSE_VALUES = new Set(['false', '0', 'no', 'off']);

/** Parses a value. Booleans and choices are case-insensitive. */
function parseValue(field: FieldSchema, rawValue: string): unknown {
  const lowerCaseValue = rawValue.toLowerCase();
  if (field.anyOf) {
    const choices = field.anyOf.map((option) => option.const);
    return choices.find((choice) => String(choice).toLowerCase() === lowerCaseValue) ?? rawValue;
  }
  switch (field.type) {
    case 'integer':
    case 'number':
      return /^-?\d+(\.\d+)?$/.test(rawValue) ? Number(rawValue) : rawValue;
    case 'boolean':
      return (
        TRUE_VALUES.has(lowerCaseValue) || (FALSE_VALUES.has(lowerCaseValue) ? false : rawValue)
      );
    case 'array':
      return rawValue
        .split(',')
        .map((part) => part.trim())
        .filter((part) => part !== '');
    default:
      return rawValue;
  }
}

/** Describes the rule for a field. Prefers the field's description to its keywords. */
function describeRule(field: FieldSchema): string {
  if (field.description !== undefined) return field.description;
  if (field.anyOf) return `must be one of: ${field.anyOf.map((choice) => choice.const).join(', ')}`;
  if (field.type === 'boolean') return 'must be true or false';
  if (field.type === 'integer' || field.type === 'number') {
    const { minimum = 0, maximum = Number.MAX_SAFE_INTEGER } = field;
    const upperBound = maximum === Number.MAX_SAFE_INTEGER ? 'or more' : `to ${maximum}`;
    return `must be a whole number, ${minimum} ${upperBound}`;
  }
  if (field.pattern !== undefined) return `must match ${field.pattern}`;
  return 'must not be empty';
}
