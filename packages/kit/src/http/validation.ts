import { SerializerSelector } from '@fastify/fast-json-stringify-compiler';
import { Ajv, type AnySchemaObject, type Options, type ValidateFunction } from 'ajv';
import formats from 'ajv-formats';
import type { FastifySchemaCompiler, FastifyServerOptions } from 'fastify';
import type { TSchema } from 'typebox';

const pending = new Set<() => unknown>();

/** Computes a value on first use and caches it, because compiling all schemas at startup is slow. */
function lazy<Value>(create: () => Value): () => Value {
  let result: { value: Value } | undefined;
  const get = () => {
    if (result === undefined) {
      result = { value: create() };
      pending.delete(get);
    }
    return result.value;
  };
  pending.add(get);
  return get;
}

/**
 * Compiles all pending schemas, so that tests detect invalid ones.
 * @throws The error of the first schema that cannot be compiled.
 */
export function compilePendingSchemas(): void {
  for (const get of pending) get();
}

/** Requests with more values get only their first error. A body of 1 MB can break half a million rules. */
const MAX_FULLY_VALIDATED_VALUES = 5000;

const AJV_OPTIONS: Options = {
  removeAdditional: false,
  useDefaults: true,
  ownProperties: true,
  strict: true,
  strictTypes: false,
  keywords: ['example'],
};

/**
 * Creates the compiler of request schemas. Parameters and headers are coerced ("20" is a valid number), bodies are not.
 * Validators report all broken rules, or only the first one if a request has more than 5,000 values.
 */
export function createValidatorCompiler(
  shared: Readonly<Record<string, AnySchemaObject>> = {},
): FastifySchemaCompiler<TSchema> {
  const schemas = Object.values(shared);
  const compileBody = createCompile(schemas, {});
  // "1e400" becomes Infinity. With `strictNumbers`, Ajv would not compare it with bounds and would accept it.
  const compileText = createCompile(schemas, { coerceTypes: true, strictNumbers: false });
  return ({ schema, httpPart }) => (httpPart === 'body' ? compileBody : compileText)(schema);
}

function createCompile(shared: readonly AnySchemaObject[], options: Options) {
  const createAjv = (allErrors: boolean) => {
    const ajv = new Ajv({ ...AJV_OPTIONS, ...options, allErrors });
    formats.default(ajv);
    return ajv.addSchema([...shared]);
  };
  const first = lazy(() => createAjv(false));
  const all = lazy(() => createAjv(true));
  return (schema: TSchema) =>
    withBoundedErrors(
      lazy(() => first().compile(schema)),
      lazy(() => all().compile(schema)),
    );
}

function withBoundedErrors(first: () => ValidateFunction, all: () => ValidateFunction) {
  const validate: { (value: unknown): boolean; errors: ValidateFunction['errors'] } = (value) => {
    const validateFirst = first();
    const isValid = validateFirst(value);
    validate.errors = validateFirst.errors;
    if (!isValid && !hasMoreValuesThan(MAX_FULLY_VALIDATED_VALUES, value)) {
      const validateAll = all();
      if (!validateAll(value)) validate.errors = validateAll.errors;
    }
    return isValid;
  };
  validate.errors = null;
  return validate;
}

/** Returns whether a value contains more than `limit` values. Avoids recursion, because bodies can be deeply nested. */
function hasMoreValuesThan(limit: number, root: unknown): boolean {
  let count = 0;
  const stack = [root];
  while (stack.length > 0) {
    const value = stack.pop();
    if (typeof value !== 'object' || value === null) continue;
    const children: unknown[] = Object.values(value);
    count += children.length;
    if (count > limit) return true;
    stack.push(...children);
  }
  return false;
}

type CompilersFactory = NonNullable<
  NonNullable<FastifyServerOptions['schemaController']>['compilersFactory']
>;

/** Compiles the schemas of requests and responses on first use, and equal schemas only once. Only code defines schemas. */
export const compilersFactory = {
  buildValidator: withSchemaCache(createValidatorCompiler),
  buildSerializer: withSchemaCache(createSerializerCompiler),
  // Fastify passes other arguments than its types declare.
} as unknown as CompilersFactory;

function createSerializerCompiler(...scope: Parameters<ReturnType<typeof SerializerSelector>>) {
  const compile = lazy(() => SerializerSelector()(...scope));
  return (part: Parameters<ReturnType<typeof compile>>[0]) => {
    const serialize = lazy(() => compile()(part));
    return (value: unknown) => serialize()(value);
  };
}

/** Caches the compilers of a factory by shared schemas, and their results by request part and schema. */
function withSchemaCache<
  Shared,
  Settings,
  Part extends { schema?: unknown; httpPart?: unknown },
  Compiled,
>(build: (shared: Shared, options: Settings) => (part: Part) => Compiled): typeof build {
  const compilers = new Map<string, (part: Part) => Compiled>();
  return (shared, options) =>
    getOrCreate(compilers, JSON.stringify([shared, options]), () => {
      const compile = build(shared, options);
      const validators = new Map<string, Compiled>();
      return (part) =>
        getOrCreate(validators, JSON.stringify([part.httpPart, part.schema]), () => compile(part));
    });
}

function getOrCreate<T>(values: Map<string, T>, key: string, create: () => T): T {
  const existing = values.get(key);
  if (existing !== undefined) return existing;
  const value = create();
  values.set(key, value);
  return value;
}

/** Validation error of Ajv. */
type RuleViolation = {
  keyword: string;
  /** JSON pointer to the invalid value. */
  instancePath: string;
  /** Path of the rule in the schema, ending with its keyword. */
  schemaPath: string;
  message?: string | undefined;
  params: object;
};

/**
 * Describes validation errors with the path of each invalid value. One message lists the alternatives of a union.
 * Contract 2, `errors`.
 * @param context Prefix of all paths, such as `body`.
 */
export function describeErrors(
  context: string,
  violations: readonly RuleViolation[],
): { path: string; message: string }[] {
  const violationsByPath = Map.groupBy(violations, ({ instancePath }) => instancePath);
  const unionPaths = new Set(
    violations.filter(isUnionViolation).map(({ instancePath }) => instancePath),
  );
  return [...violationsByPath].flatMap(([path, rules]) => {
    const messages = includesPathOrParent(unionPaths, path)
      ? [describeChoice(rules)]
      : removeImpliedRules(rules).map(describeRule);
    return messages.map((message) => ({ path: `${context}${path}`, message }));
  });
}

const isUnionViolation = ({ keyword }: RuleViolation) => keyword === 'anyOf' || keyword === 'oneOf';

/** Returns whether a set contains a path or one of its parents. */
function includesPathOrParent(paths: ReadonlySet<string>, path: string): boolean {
  if (paths.has(path)) return true;
  return path !== '' && includesPathOrParent(paths, path.slice(0, path.lastIndexOf('/')));
}

function describeChoice(rules: readonly RuleViolation[]): string {
  const members = removeImpliedRules(rules).filter((rule) => !isUnionViolation(rule));
  const values = members.flatMap(listAllowedValues);
  const otherRules = members.filter((rule) => listAllowedValues(rule).length === 0);
  // If Ajv reports only the union here, the violations of its members have deeper paths.
  const describedRules = members.length === 0 ? rules : otherRules;
  const messages = new Set(describedRules.map(describeRule));
  if (values.length > 0) messages.add(describeAllowedValues(values));
  return [...messages].join(', or ');
}

/** Removes type errors that are redundant because the same schema lists the allowed values. */
function removeImpliedRules(rules: readonly RuleViolation[]): RuleViolation[] {
  const getSchemaPath = ({ schemaPath }: RuleViolation) =>
    schemaPath.slice(0, schemaPath.lastIndexOf('/'));
  const schemasWithValues = new Set(
    rules.filter((rule) => listAllowedValues(rule).length > 0).map(getSchemaPath),
  );
  return rules.filter(
    (rule) =>
      rule.keyword !== 'type' ||
      isNullViolation(rule) ||
      !schemasWithValues.has(getSchemaPath(rule)),
  );
}

/** Describes a violation. Adds the unknown key or the allowed values to Ajv's message. */
function describeRule(rule: RuleViolation): string {
  const text = rule.message ?? 'is not valid';
  const unknownKey: unknown = Reflect.get(rule.params, 'additionalProperty');
  if (typeof unknownKey === 'string') return `${text}: ${JSON.stringify(unknownKey)} is unknown`;
  const values = listAllowedValues(rule);
  return values.length > 0 ? describeAllowedValues(values) : text;
}

const isNullViolation = ({ keyword, params }: RuleViolation) =>
  keyword === 'type' && Reflect.get(params, 'type') === 'null';

function listAllowedValues(rule: RuleViolation): unknown[] {
  if (isNullViolation(rule)) return [null];
  if (rule.keyword === 'const') return [Reflect.get(rule.params, 'allowedValue')];
  const values: unknown = rule.keyword === 'enum' ? Reflect.get(rule.params, 'allowedValues') : [];
  return Array.isArray(values) ? values : [];
}

function describeAllowedValues(values: readonly unknown[]): string {
  const texts = values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value)));
  const list = [...new Set(texts)];
  return `must be ${list.length === 1 ? '' : 'one of '}${list.join(', ')}`;
}
