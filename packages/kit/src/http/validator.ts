import { Ajv, type AnySchemaObject, type Options, type ValidateFunction } from 'ajv';
import formats from 'ajv-formats';
import type { FastifySchemaCompiler } from 'fastify';
import type { TSchema } from 'typebox';
import { late } from './late.ts';

/**
 * Of what holds more values than this the first error is told, not all: a megabyte of them can break half a
 * million rules, and to find and describe those takes a second. It is more than any right request has.
 */
const MOST_VALUES = 5000;

const SHARED: Options = {
  // A value is what was sent: unknown fields are errors where the schema says so, never stripped.
  removeAdditional: false,
  useDefaults: true,
  ownProperties: true,
  strict: true,
  strictTypes: false,
  keywords: ['example'],
};

/**
 * Compiles the schemas of requests. Bodies are taken as they are; what comes in an address or a
 * header is text, so there `"20"` may stand for a number. A request that breaks several rules is told
 * all of them, unless it holds more than 5,000 values.
 * @param shared The schemas that routes may refer to, by their ids.
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
  const first = late(() => open(false));
  const all = late(() => open(true));
  return (schema: TSchema) =>
    withBoundedErrors(
      late(() => first().compile(schema)),
      late(() => all().compile(schema)),
    );
}

/** Stops at the first error, and looks for the others only where they cannot be many. */
function withBoundedErrors(first: () => ValidateFunction, all: () => ValidateFunction) {
  const validate: { (value: unknown): boolean; errors: ValidateFunction['errors'] } = (value) => {
    const validateFirst = first();
    const isRight = validateFirst(value);
    validate.errors = validateFirst.errors;
    if (!isRight && !holdsMoreThan(MOST_VALUES, value)) {
      const validateAll = all();
      if (!validateAll(value)) validate.errors = validateAll.errors;
    }
    return isRight;
  };
  validate.errors = null;
  return validate;
}

/** Walks with a list of its own: a body can be nested deeper than the stack is. */
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
