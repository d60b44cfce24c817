import type { Static, TObject, TSchema } from 'typebox';
import { Value } from 'typebox/value';
import { StartError } from './process.ts';

/** Thrown for an invalid configuration. The message lists each variable with its first broken rule, without its value. */
export class ConfigError extends StartError {
  override readonly name = 'ConfigError';
  readonly problems: ReadonlyMap<string, string>;

  constructor(problems: readonly (readonly [variable: string, rule: string])[]) {
    const firstRules = new Map<string, string>();
    for (const [variable, rule] of problems)
      firstRules.set(variable, firstRules.get(variable) ?? rule);
    const lines = [...firstRules].map(([variable, rule]) => `  ${variable} ${rule}`);
    super(`Configuration value error:\n${lines.join('\n')}`);
    this.problems = firstRules;
  }

  get variables(): readonly string[] {
    return [...this.problems.keys()];
  }
}

/** Rule over several variables. Returns each variable that violates the rule, with a description. `values` omits invalid variables. */
export type ConfigRule<Schema extends TObject> = (
  values: Partial<Static<Schema>>,
) => readonly (readonly [variable: keyof Static<Schema> & string, rule: string])[];

/**
 * Reads a configuration from environment variables. An empty variable is treated as unset.
 * @param schema Object schema whose keys are the names of the variables.
 * @throws ConfigError with all invalid variables. Contract 1.
 */
export function loadConfig<Schema extends TObject>(
  schema: Schema,
  env: Readonly<Record<string, string | undefined>>,
  rules: readonly ConfigRule<Schema>[] = [],
): Static<Schema> {
  const required = new Set<string>(schema.required ?? []);
  const config: Record<string, unknown> = {};
  const problems: (readonly [string, string])[] = [];
  for (const [name, field] of Object.entries<Field>(schema.properties)) {
    const raw = env[name]?.trim();
    const value =
      raw === undefined || raw === '' ? structuredClone(field.default) : parseValue(field, raw);
    if (value === undefined) {
      if (required.has(name)) problems.push([name, `is not set: it ${describeRule(field)}`]);
    } else if (Value.Check(field, value)) config[name] = value;
    else problems.push([name, describeRule(field)]);
  }
  // Required variables may be missing or invalid.
  problems.push(...rules.flatMap((rule) => rule(config as Partial<Static<Schema>>)));
  if (problems.length > 0) throw new ConfigError(problems);
  return config as Static<Schema>;
}

/**
 * Loads several configurations in order, and reports the problems of all of them in one error.
 * @throws ConfigError with all invalid variables. Rethrows other errors.
 */
export function loadConfigs<Configs extends readonly unknown[]>(
  ...readers: { readonly [Index in keyof Configs]: () => Configs[Index] }
): Configs {
  const configs: unknown[] = [];
  const problems: [string, string][] = [];
  for (const read of readers) {
    try {
      configs.push(read());
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      problems.push(...error.problems);
    }
  }
  if (problems.length > 0) throw new ConfigError(problems);
  // There are no problems, so each reader returned its configuration.
  return configs as unknown as Configs;
}

/** JSON Schema keywords of configuration fields. */
type Field = TSchema & {
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

/** Parses a value. Booleans and the names of choices are case-insensitive. */
function parseValue(field: Field, raw: string): unknown {
  const lower = raw.toLowerCase();
  if (field.anyOf) {
    const names = field.anyOf.map((choice) => choice.const);
    return names.find((name) => String(name).toLowerCase() === lower) ?? raw;
  }
  switch (field.type) {
    case 'integer':
    case 'number':
      return /^-?\d+(\.\d+)?$/.test(raw) ? Number(raw) : raw;
    case 'boolean':
      return TRUE_VALUES.has(lower) || (FALSE_VALUES.has(lower) ? false : raw);
    case 'array':
      return raw
        .split(',')
        .map((part) => part.trim())
        .filter((part) => part !== '');
    default:
      return raw;
  }
}

/** Describes the rule of a field, by its description or its keywords. */
function describeRule(field: Field): string {
  if (field.description !== undefined) return field.description;
  if (field.anyOf) return `must be one of: ${field.anyOf.map((choice) => choice.const).join(', ')}`;
  if (field.type === 'boolean') return 'must be true or false';
  if (field.type === 'integer' || field.type === 'number') {
    const { minimum = 0, maximum = Number.MAX_SAFE_INTEGER } = field;
    const bound = maximum === Number.MAX_SAFE_INTEGER ? 'or more' : `to ${maximum}`;
    return `must be a whole number, ${minimum} ${bound}`;
  }
  if (field.pattern !== undefined) return `must match ${field.pattern}`;
  return 'must not be empty';
}
