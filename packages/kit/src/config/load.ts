import { type Static, type TObject, type TSchema } from 'typebox';
import { Value } from 'typebox/value';
import { StartError } from '../start-error.ts';

/** What is wrong with the configuration: each bad variable with the rule it broke, never its value. */
export class ConfigError extends StartError {
  override readonly name = 'ConfigError';
  readonly problems: ReadonlyMap<string, string>;

  constructor(problems: ReadonlyMap<string, string>) {
    const lines = [...problems].map(([variable, broken]) => `  ${variable} ${broken}`);
    super(`Configuration value error:\n${lines.join('\n')}`);
    this.problems = problems;
  }

  get variables(): readonly string[] {
    return [...this.problems.keys()];
  }
}

/**
 * What several variables must be together: gives each variable that breaks the rule, with the rule. A
 * variable that is bad by itself is not among the values; neither is an optional one that is not set.
 */
export type ConfigRule<Schema extends TObject> = (
  values: Partial<Static<Schema>>,
) => readonly (readonly [variable: keyof Static<Schema> & string, rule: string])[];

/**
 * Reads a configuration out of environment variables. An empty variable counts as not set. The
 * function is pure: the same variables give the same configuration.
 * @param schema An object schema whose keys are the variables' names.
 * @param rules What the variables must be together; a variable that is bad by itself is told as that.
 * @throws ConfigError naming every bad variable at once. Contract 1.
 */
export function loadConfig<Schema extends TObject>(
  schema: Schema,
  env: Readonly<Record<string, string | undefined>>,
  rules: readonly ConfigRule<Schema>[] = [],
): Static<Schema> {
  const required = new Set<string>(schema.required ?? []);
  const config: Record<string, unknown> = {};
  const bad = new Map<string, string>();
  for (const [name, field] of Object.entries<Field>(schema.properties)) {
    const raw = env[name]?.trim();
    const value =
      raw === undefined || raw === '' ? structuredClone(field.default) : parse(field, raw);
    if (value === undefined) {
      if (required.has(name)) bad.set(name, `is not set: it ${rule(field)}`);
    } else if (Value.Check(field, value)) {
      config[name] = value;
    } else {
      bad.set(name, rule(field));
    }
  }
  // Every value passed its field's check; required ones may still be missing while rules see them.
  const broken = rules.flatMap((together) => together(config as Partial<Static<Schema>>));
  const problems = firstOfEach([...bad, ...broken]);
  if (problems.size > 0) throw new ConfigError(problems);
  return config as Static<Schema>;
}

/**
 * Reads several configurations for one process, so that what is bad in any of them is one error.
 * @param readers Called in this order, each of them, whichever fail.
 * @throws ConfigError naming every bad variable once; any other error as it is.
 */
export function loadTogether<Configs extends readonly unknown[]>(
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
  if (problems.length > 0) throw new ConfigError(firstOfEach(problems));
  // Without a problem each reader gave its configuration, in order.
  return configs as unknown as Configs;
}

/** The first that is told of each variable, in the order told. */
function firstOfEach(told: readonly (readonly [string, string])[]): Map<string, string> {
  const problems = new Map<string, string>();
  for (const [variable, broken] of told) {
    if (!problems.has(variable)) problems.set(variable, broken);
  }
  return problems;
}

/** The JSON Schema keywords that configuration fields use. */
type Field = TSchema & {
  type?: string;
  default?: unknown;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  pattern?: string;
  anyOf?: { const?: unknown }[];
  description?: string;
};

const BOOLEANS = new Map([
  ['true', true],
  ['1', true],
  ['yes', true],
  ['on', true],
  ['false', false],
  ['0', false],
  ['no', false],
  ['off', false],
]);

/** Truth values and the names of choices are compared without case. */
function parse(field: Field, raw: string): unknown {
  if (field.anyOf) {
    const names = field.anyOf.map((one) => one.const);
    return names.find((name) => String(name).toLowerCase() === raw.toLowerCase()) ?? raw;
  }
  switch (field.type) {
    case 'integer':
    case 'number':
      return /^-?\d+(\.\d+)?$/.test(raw) ? Number(raw) : raw;
    case 'boolean':
      return BOOLEANS.get(raw.toLowerCase()) ?? raw;
    case 'array':
      return raw
        .split(',')
        .map((part) => part.trim())
        .filter((part) => part !== '');
    default:
      return raw;
  }
}

/** A field's own description is its rule, where it has one; else its keywords are put into words. */
function rule(field: Field): string {
  if (field.description !== undefined) return field.description;
  if (field.anyOf) return `must be one of: ${field.anyOf.map((one) => one.const).join(', ')}`;
  if (field.type === 'boolean') return 'must be true or false';
  if (field.type === 'integer' || field.type === 'number') {
    const most =
      field.maximum === undefined || field.maximum === Number.MAX_SAFE_INTEGER
        ? 'or more'
        : `to ${field.maximum}`;
    return `must be a whole number, ${field.minimum ?? 0} ${most}`;
  }
  if (field.pattern !== undefined) return `must match ${field.pattern}`;
  return 'must not be empty';
}
