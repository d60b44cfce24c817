import { SerializerSelector } from '@fastify/fast-json-stringify-compiler';
import { Ajv, type AnySchemaObject, type Options, type ValidateFunction } from 'ajv';
import formats from 'ajv-formats';
import type { FastifySchemaCompiler, FastifyServerOptions } from 'fastify';
import type { TSchema } from 'typebox';

const pending = new Set<() => unknown>();

/** Defers a computation until its result is needed, then caches the result. Compiling all schemas at startup is slow. */
function lazy<Value>(make: () => Value): () => Value {
  let made: { value: Value } | undefined;
  const get = () => {
    if (made === undefined) {
      made = { value: make() };
      pending.delete(get);
    }
    return made.value;
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

/** Maximum values of a request for which all errors are found. A body of 1 MB can break half a million rules. */
const MAX_VALUES = 5000;

const SHARED: Options = {
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
  const asSent = createCompile(schemas, {});
  // "1e400" becomes Infinity. With `strictNumbers`, Ajv would not compare it with bounds and would accept it.
  const fromText = createCompile(schemas, { coerceTypes: true, strictNumbers: false });
  return ({ schema, httpPart }) => (httpPart === 'body' ? asSent : fromText)(schema);
}

function createCompile(shared: readonly AnySchemaObject[], options: Options) {
  const open = (allErrors: boolean) => {
    const ajv = new Ajv({ ...SHARED, ...options, allErrors });
    formats.default(ajv);
    return ajv.addSchema([...shared]);
  };
  const first = lazy(() => open(false));
  const all = lazy(() => open(true));
  return (schema: TSchema) =>
    withBoundedErrors(
      lazy(() => first().compile(schema)),
      lazy(() => all().compile(schema)),
    );
}

function withBoundedErrors(first: () => ValidateFunction, all: () => ValidateFunction) {
  const validate: { (value: unknown): boolean; errors: ValidateFunction['errors'] } = (value) => {
    const validateFirst = first();
    const isRight = validateFirst(value);
    validate.errors = validateFirst.errors;
    if (!isRight && !hasMoreValuesThan(MAX_VALUES, value)) {
      const validateAll = all();
      if (!validateAll(value)) validate.errors = validateAll.errors;
    }
    return isRight;
  };
  validate.errors = null;
  return validate;
}

/** Counts values without recursion, because a body can be nested deeply. */
function hasMoreValuesThan(most: number, root: unknown): boolean {
  let seen = 0;
  const waiting = [root];
  while (waiting.length > 0) {
    const value = waiting.pop();
    if (typeof value !== 'object' || value === null) continue;
    const inner: unknown[] = Object.values(value);
    seen += inner.length;
    if (seen > most) return true;
    waiting.push(...inner);
  }
  return false;
}

type CompilersFactory = NonNullable<
  NonNullable<FastifyServerOptions['schemaController']>['compilersFactory']
>;

/** Compiles the schemas of requests and responses on first use, and equal schemas only once. All of them are in code. */
export const compilersFactory = {
  buildValidator: withSchemaCache(createValidatorCompiler),
  buildSerializer: withSchemaCache(createSerializerCompiler),
  // The types of Fastify differ from its actual calls.
} as unknown as CompilersFactory;

function createSerializerCompiler(...scope: Parameters<ReturnType<typeof SerializerSelector>>) {
  const compile = lazy(() => SerializerSelector()(...scope));
  return (part: Parameters<ReturnType<typeof compile>>[0]) => {
    const serialize = lazy(() => compile()(part));
    return (value: unknown) => serialize()(value);
  };
}

/** Adds a cache to a factory of compilers, by shared schemas, request part and schema. */
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
      const compiled = new Map<string, Compiled>();
      return (part) =>
        getOrCreate(compiled, JSON.stringify([part.httpPart, part.schema]), () => compile(part));
    });
}

function getOrCreate<T>(values: Map<string, T>, key: string, make: () => T): T {
  const before = values.get(key);
  if (before !== undefined) return before;
  const value = make();
  values.set(key, value);
  return value;
}

/** Validation error of Ajv. */
type BrokenRule = {
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
  broken: readonly BrokenRule[],
): { path: string; message: string }[] {
  const places = Map.groupBy(broken, ({ instancePath }) => instancePath);
  const unions = new Set(broken.filter(isUnion).map(({ instancePath }) => instancePath));
  return [...places].flatMap(([place, rules]) => {
    const messages = isWithin(unions, place)
      ? [describeChoice(rules)]
      : removeImpliedRules(rules).map(describeRule);
    return messages.map((message) => ({ path: `${context}${place}`, message }));
  });
}

const isUnion = ({ keyword }: BrokenRule) => keyword === 'anyOf' || keyword === 'oneOf';

/** Returns whether a set contains a path or one of its parents. */
function isWithin(places: ReadonlySet<string>, place: string): boolean {
  if (places.has(place)) return true;
  return place !== '' && isWithin(places, place.slice(0, place.lastIndexOf('/')));
}

function describeChoice(rules: readonly BrokenRule[]): string {
  const members = removeImpliedRules(rules).filter((rule) => !isUnion(rule));
  const values = members.flatMap(listAllowedValues);
  const others = members.filter((rule) => listAllowedValues(rule).length === 0);
  // If only the union itself is reported, its members broke rules at deeper paths, which are described separately.
  const describedRules = members.length === 0 ? rules : others;
  const messages = new Set(describedRules.map(describeRule));
  if (values.length > 0) messages.add(describeAllowedValues(values));
  return [...messages].join(', or ');
}

/** Removes type errors that are redundant because the same schema lists the allowed values. */
function removeImpliedRules(rules: readonly BrokenRule[]): BrokenRule[] {
  const schemaOf = ({ schemaPath }: BrokenRule) => schemaPath.slice(0, schemaPath.lastIndexOf('/'));
  const naming = new Set(rules.filter((rule) => listAllowedValues(rule).length > 0).map(schemaOf));
  return rules.filter(
    (rule) => rule.keyword !== 'type' || isNull(rule) || !naming.has(schemaOf(rule)),
  );
}

/** Adds the unknown key or the allowed values, which the messages of Ajv lack. */
function describeRule(rule: BrokenRule): string {
  const text = rule.message ?? 'is not valid';
  const unknown: unknown = Reflect.get(rule.params, 'additionalProperty');
  if (typeof unknown === 'string') return `${text}: ${JSON.stringify(unknown)} is unknown`;
  const values = listAllowedValues(rule);
  return values.length > 0 ? describeAllowedValues(values) : text;
}

const isNull = ({ keyword, params }: BrokenRule) =>
  keyword === 'type' && Reflect.get(params, 'type') === 'null';

function listAllowedValues(rule: BrokenRule): unknown[] {
  if (isNull(rule)) return [null];
  if (rule.keyword === 'const') return [Reflect.get(rule.params, 'allowedValue')];
  const listed: unknown = rule.keyword === 'enum' ? Reflect.get(rule.params, 'allowedValues') : [];
  return Array.isArray(listed) ? listed : [];
}

function describeAllowedValues(values: readonly unknown[]): string {
  const texts = values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value)));
  const list = [...new Set(texts)];
  return `must be ${list.length === 1 ? '' : 'one of '}${list.join(', ')}`;
}
