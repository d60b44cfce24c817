import { Ajv, type AnySchemaObject, type Options } from 'ajv';
import formats from 'ajv-formats';
import type { FastifySchemaCompiler } from 'fastify';
import type { TSchema } from 'typebox';

const SHARED: Options = {
  allErrors: true,
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
 * header is text, so there `"20"` may stand for a number.
 * @param shared The schemas that routes may refer to, by their ids.
 */
export function createValidatorCompiler(
  shared: Readonly<Record<string, AnySchemaObject>> = {},
): FastifySchemaCompiler<TSchema> {
  const asSent = new Ajv(SHARED);
  // "1e400" becomes Infinity, which a strict Ajv compares with no bound and so lets through.
  const fromText = new Ajv({ ...SHARED, coerceTypes: true, strictNumbers: false });
  for (const ajv of [asSent, fromText]) {
    formats.default(ajv);
    ajv.addSchema(Object.values(shared));
  }
  return ({ schema, httpPart }) => (httpPart === 'body' ? asSent : fromText).compile(schema);
}
