import { SerializerSelector } from '@fastify/fast-json-stringify-compiler';
import { Ajv, type AnySchemaObject, type Options, type ValidateFunction } from 'ajv';
import formats from 'ajv-formats';
import type { FastifySchemaCompiler, FastifyServerOptions } from 'fastify';
import type { TSchema } from 'typebox';

const pending = new Set<() => unknown>();

/**
 * Defers a computation until its result is needed, and keeps the result. Compiling the schemas of all routes and answers
 * was most of a server's start, and most are needed late or never.
 */
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
 * Compiles all schemas that no request has needed yet, so that a test finds those that cannot be compiled.
 * @throws The error of the first that fails.
 */
export function compileAll(): void {
  for (const get of pending) get();
}

/**
 * Requests with more values than this get their first error only: a megabyte can break half a million rules, which take
 * a second to find and describe.
 */
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
 * Creates the compiler of request schemas. Bodies are not coerced; parameters and headers are text, so there `"20"` may
 * stand for a number. All broken rules are reported, of a request with more than 5,000 values the first.
 * @param shared Schemas that routes may refer to, by id.
 */
export function createValidatorCompiler(
  shared: Readonly<Record<string, AnySchemaObject>> = {},
): FastifySchemaCompiler<TSchema> {
  const schemas = Object.values(shared);
  const asSent = createCompile(schemas, {});
  // "1e400" becomes Infinity, which a strict Ajv compares with no bound and so lets through.
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

/** Stops at the first error, and finds the others only where they cannot be many. */
function withBoundedErrors(first: () => ValidateFunction, all: () => ValidateFunction) {
  const validate: { (value: unknown): boolean; errors: ValidateFunction['errors'] } = (value) => {
    const validateFirst = first();
    const isRight = validateFirst(value);
    validate.errors = validateFirst.errors;
    if (!isRight && !holdsMoreThan(MAX_VALUES, value)) {
      const validateAll = all();
      if (!validateAll(value)) validate.errors = validateAll.errors;
    }
    return isRight;
  };
  validate.errors = null;
  return validate;
}

/** Walks with an explicit stack, since a body can be nested deeper than the call stack allows. */
function holdsMoreThan(most: number, root: unknown): boolean {
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

/**
 * Compiles the schemas of requests and answers, equal ones once in a process and only when needed. Fastify asks for new
 * compilers for each scope with schemas, and for every answer of every route. Schemas come from the code, which bounds
 * the cache.
 */
export const compilersFactory = {
  buildValidator: pooled(createValidatorCompiler),
  buildSerializer: pooled(createSerializerCompiler),
  // Fastify's types describe another shape than it calls.
} as unknown as CompilersFactory;

function createSerializerCompiler(...scope: Parameters<ReturnType<typeof SerializerSelector>>) {
  const compile = lazy(() => SerializerSelector()(...scope));
  return (part: Parameters<ReturnType<typeof compile>>[0]) => {
    const serialize = lazy(() => compile()(part));
    return (value: unknown) => serialize()(value);
  };
}

/** Makes a builder of compilers compile each schema once for each set of shared schemas and part of a request. */
function pooled<Shared, Settings, Part extends { schema?: unknown; httpPart?: unknown }, Compiled>(
  build: (shared: Shared, options: Settings) => (part: Part) => Compiled,
): typeof build {
  const compilers = new Map<string, (part: Part) => Compiled>();
  return (shared, options) =>
    kept(compilers, JSON.stringify([shared, options]), () => {
      const compile = build(shared, options);
      const compiled = new Map<string, Compiled>();
      return (part) =>
        kept(compiled, JSON.stringify([part.httpPart, part.schema]), () => compile(part));
    });
}

function kept<T>(values: Map<string, T>, key: string, make: () => T): T {
  const before = values.get(key);
  if (before !== undefined) return before;
  const value = make();
  values.set(key, value);
  return value;
}

/** A rule that a value breaks, as Ajv reports it. */
export type BrokenRule = {
  keyword: string;
  /** Where the value is, as a JSON pointer. */
  instancePath: string;
  /** Where the rule is, its keyword last. */
  schemaPath: string;
  message?: string | undefined;
  params: object;
};

/**
 * Describes each broken rule and its place. A union whose members all reject a value gets one message that lists the
 * alternatives. Contract 2, `errors`.
 * @param context First part of every path, such as `body`.
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
      : withoutImplied(rules).map(describeRule);
    return messages.map((message) => ({ path: `${context}${place}`, message }));
  });
}

const isUnion = ({ keyword }: BrokenRule) => keyword === 'anyOf' || keyword === 'oneOf';

/** Returns whether a set has a place, or one that encloses it. */
function isWithin(places: ReadonlySet<string>, place: string): boolean {
  if (places.has(place)) return true;
  return place !== '' && isWithin(places, place.slice(0, place.lastIndexOf('/')));
}

/** Describes the alternatives where each rule belongs to another member of a union. */
function describeChoice(rules: readonly BrokenRule[]): string {
  const members = withoutImplied(rules).filter((rule) => !isUnion(rule));
  const values = members.flatMap(allowedValues);
  const others = members.filter((rule) => allowedValues(rule).length === 0);
  // The members of a lone union reject values deeper inside, which have places of their own.
  const shown = members.length === 0 ? rules : others;
  const messages = new Set(shown.map(describeRule));
  if (values.length > 0) messages.add(mustBe(values));
  return [...messages].join(', or ');
}

/** Drops the type of values that a schema lists one by one. */
function withoutImplied(rules: readonly BrokenRule[]): BrokenRule[] {
  const schemaOf = ({ schemaPath }: BrokenRule) => schemaPath.slice(0, schemaPath.lastIndexOf('/'));
  const naming = new Set(rules.filter((rule) => allowedValues(rule).length > 0).map(schemaOf));
  return rules.filter(
    (rule) => rule.keyword !== 'type' || isNull(rule) || !naming.has(schemaOf(rule)),
  );
}

/** Ajv leaves the name of an unknown key and the allowed values out of its messages. */
function describeRule(rule: BrokenRule): string {
  const text = rule.message ?? 'is not valid';
  const unknown: unknown = Reflect.get(rule.params, 'additionalProperty');
  if (typeof unknown === 'string') return `${text}: ${JSON.stringify(unknown)} is unknown`;
  const values = allowedValues(rule);
  return values.length > 0 ? mustBe(values) : text;
}

const isNull = ({ keyword, params }: BrokenRule) =>
  keyword === 'type' && Reflect.get(params, 'type') === 'null';

/** The values that a rule names. */
function allowedValues(rule: BrokenRule): unknown[] {
  if (isNull(rule)) return [null];
  if (rule.keyword === 'const') return [Reflect.get(rule.params, 'allowedValue')];
  const listed: unknown = rule.keyword === 'enum' ? Reflect.get(rule.params, 'allowedValues') : [];
  return Array.isArray(listed) ? listed : [];
}

function mustBe(values: readonly unknown[]): string {
  const texts = new Set(
    values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value))),
  );
  return texts.size === 1
    ? `must be ${[...texts].join('')}`
    : `must be one of ${[...texts].join(', ')}`;
}
