import { Ajv, type AnySchemaObject, type Options } from 'ajv';
import formats from 'ajv-formats';
import type { FastifySchemaCompiler, FastifyServerOptions } from 'fastify';
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

type CompilersFactory = NonNullable<
  NonNullable<FastifyServerOptions['schemaController']>['compilersFactory']
>;

/**
 * Builds the validators of a server. Fastify builds one anew for each scope that adds schemas, so that
 * the scope's routes can refer to them.
 */
export const compilersFactory: CompilersFactory = {
  // Fastify's types describe another shape than what it calls: a route's schema and which part it is.
  buildValidator: createValidatorCompiler as unknown as CompilersFactory['buildValidator'],
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
