import { SerializerSelector } from '@fastify/fast-json-stringify-compiler';
import { Ajv, type AnySchemaObject, type Options, type ValidateFunction } from 'ajv';
import formats from 'ajv-formats';
import type { FastifySchemaCompiler, FastifyServerOptions } from 'fastify';
import type { TSchema } from 'typebox';

const pendingGetters = new Set<() => unknown>();

/**
 * Creates a getter that computes a value on first use and caches it, because compiling all schemas at startup is slow.
 */
function createLazyGetter<Value>(create: () => Value): () => Value {
  let cache: { value: Value } | undefined;
  const get = () => {
    if (cache === undefined) {
      cache = { value: create() };
      pendingGetters.delete(get);
    }
    return cache.value;
  };
  pendingGetters.add(get);
  return get;
}

/**
 * Compiles all pending schemas. Tests call this function to detect invalid schemas.
 * @throws The error of the first schema that cannot be compiled.
 */
export function compilePendingSchemas(): void {
  for (const get of pendingGetters) get();
}

/** Maximum number of values in a request for which all errors are reported. 1 MB can violate half a million rules. */
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
 * Creates the request schema compiler. Parameters and headers are coerced ("20" is a valid number, and one value a valid
 * array), bodies are not.
 * Validators report all violations, or only the first one if a request has more than 5,000 values.
 */
export function createValidatorCompiler(
  sharedSchemas: Readonly<Record<string, AnySchemaObject>> = {},
): FastifySchemaCompiler<TSchema> {
  const schemas = Object.values(sharedSchemas);
  const compileBody = createSchemaCompiler(schemas, {});
  // "1e400" becomes Infinity. With `strictNumbers`, Ajv would not compare it with bounds and would accept it.
  const compileCoerced = createSchemaCompiler(schemas, {
    coerceTypes: 'array',
    strictNumbers: false,
  });
  return ({ schema, httpPart }) => (httpPart === 'body' ? compileBody : compileCoerced)(schema);
}

function createSchemaCompiler(sharedSchemas: readonly AnySchemaObject[], options: Options) {
  const createAjv = (allErrors: boolean) => {
    const ajv = new Ajv({ ...AJV_OPTIONS, ...options, allErrors });
    formats.default(ajv);
    return ajv.addSchema([...sharedSchemas]);
  };
  const getFirstErrorAjv = createLazyGetter(() => createAjv(false));
  const getAllErrorsAjv = createLazyGetter(() => createAjv(true));
  return (schema: TSchema) =>
    withBoundedErrors(
      createLazyGetter(() => getFirstErrorAjv().compile(schema)),
      createLazyGetter(() => getAllErrorsAjv().compile(schema)),
    );
}

function withBoundedErrors(
  getFirstErrorValidator: () => ValidateFunction,
  getAllErrorsValidator: () => ValidateFunction,
) {
  const validate: { (value: unknown): boolean; errors: ValidateFunction['errors'] } = (value) => {
    const validateFirst = getFirstErrorValidator();
    const isValid = validateFirst(value);
    validate.errors = validateFirst.errors;
    if (!isValid && !hasMoreValuesThan(MAX_FULLY_VALIDATED_VALUES, value)) {
      const validateAll = getAllErrorsValidator();
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

/**
 * Factories of the request and response compilers, which compile schemas on first use, and identical schemas only once.
 * Clients define no schemas, so the cache is bounded.
 */
export const compilersFactory = {
  buildValidator: withSchemaCache(createValidatorCompiler),
  buildSerializer: withSchemaCache(createSerializerCompiler),
  // Fastify passes arguments that differ from its types.
} as unknown as CompilersFactory;

function createSerializerCompiler(...scope: Parameters<ReturnType<typeof SerializerSelector>>) {
  const compile = createLazyGetter(() => SerializerSelector()(...scope));
  return (routePart: Parameters<ReturnType<typeof compile>>[0]) => {
    const serialize = createLazyGetter(() => compile()(routePart));
    return (value: unknown) => serialize()(value);
  };
}

/** Caches the compilers of a factory by shared schemas and options, and their results by request part and schema. */
function withSchemaCache<
  Shared,
  Settings,
  RoutePart extends { schema?: unknown; httpPart?: unknown },
  Compiled,
>(
  createCompiler: (sharedSchemas: Shared, options: Settings) => (routePart: RoutePart) => Compiled,
): typeof createCompiler {
  const compilers = new Map<string, (routePart: RoutePart) => Compiled>();
  return (sharedSchemas, options) =>
    getOrCreate(compilers, JSON.stringify([sharedSchemas, options]), () => {
      const compile = createCompiler(sharedSchemas, options);
      const validators = new Map<string, Compiled>();
      return (routePart) =>
        getOrCreate(validators, JSON.stringify([routePart.httpPart, routePart.schema]), () =>
          compile(routePart),
        );
    });
}

function getOrCreate<T>(values: Map<string, T>, key: string, create: () => T): T {
  const cachedValue = values.get(key);
  if (cachedValue !== undefined) return cachedValue;
  const value = create();
  values.set(key, value);
  return value;
}

/** Ajv validation error. */
type Violation = {
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
  violations: readonly Violation[],
): { path: string; message: string }[] {
  const violationsByPath = Map.groupBy(violations, ({ instancePath }) => instancePath);
  const unionPaths = new Set(
    violations.filter(isUnionViolation).map(({ instancePath }) => instancePath),
  );
  return [...violationsByPath].flatMap(([path, pathViolations]) => {
    const messages = includesPathOrParent(unionPaths, path)
      ? [describeChoice(pathViolations)]
      : removeImpliedViolations(pathViolations).map(describeViolation);
    return messages.map((message) => ({ path: `${context}${path}`, message }));
  });
}

const isUnionViolation = ({ keyword }: Violation) => keyword === 'anyOf' || keyword === 'oneOf';

/** Returns whether a set contains a path or one of its parents. */
function includesPathOrParent(paths: ReadonlySet<string>, path: string): boolean {
  if (paths.has(path)) return true;
  return path !== '' && includesPathOrParent(paths, path.slice(0, path.lastIndexOf('/')));
}

function describeChoice(violations: readonly Violation[]): string {
  const memberViolations = removeImpliedViolations(violations).filter(
    (violation) => !isUnionViolation(violation),
  );
  const allowedValues = memberViolations.flatMap(listAllowedValues);
  const otherViolations = memberViolations.filter(
    (violation) => listAllowedValues(violation).length === 0,
  );
  // If Ajv reports only the union here, the violations of its members have deeper paths.
  const describedViolations = memberViolations.length === 0 ? violations : otherViolations;
  const messages = new Set(describedViolations.map(describeViolation));
  if (allowedValues.length > 0) messages.add(describeAllowedValues(allowedValues));
  return [...messages].join(', or ');
}

/** Removes type errors that are redundant because the same schema lists the allowed values. */
function removeImpliedViolations(violations: readonly Violation[]): Violation[] {
  const getSchemaPath = ({ schemaPath }: Violation) =>
    schemaPath.slice(0, schemaPath.lastIndexOf('/'));
  const schemasWithValues = new Set(
    violations.filter((violation) => listAllowedValues(violation).length > 0).map(getSchemaPath),
  );
  return violations.filter(
    (violation) =>
      violation.keyword !== 'type' ||
      isNullViolation(violation) ||
      !schemasWithValues.has(getSchemaPath(violation)),
  );
}

/** Describes a violation. Adds the unknown key to Ajv's message, or replaces the message with the allowed values. */
function describeViolation(violation: Violation): string {
  const message = violation.message ?? 'is not valid';
  const unknownKey: unknown = Reflect.get(violation.params, 'additionalProperty');
  if (typeof unknownKey === 'string') return `${message}: ${JSON.stringify(unknownKey)} is unknown`;
  const allowedValues = listAllowedValues(violation);
  return allowedValues.length > 0 ? describeAllowedValues(allowedValues) : message;
}

const isNullViolation = ({ keyword, params }: Violation) =>
  keyword === 'type' && Reflect.get(params, 'type') === 'null';

function listAllowedValues(violation: Violation): unknown[] {
  if (isNullViolation(violation)) return [null];
  if (violation.keyword === 'const') return [Reflect.get(violation.params, 'allowedValue')];
  const values: unknown =
    violation.keyword === 'enum' ? Reflect.get(violation.params, 'allowedValues') : [];
  return Array.isArray(values) ? values : [];
}

function describeAllowedValues(values: readonly unknown[]): string {
  const labels = values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value)));
  const uniqueLabels = [...new Set(labels)];
  return `must be ${uniqueLabels.length === 1 ? '' : 'one of '}${uniqueLabels.join(', ')}`;
}
