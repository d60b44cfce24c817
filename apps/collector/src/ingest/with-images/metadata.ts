import { createJsonParser, describeErrors, ProblemError, type Server } from '@oselya/kit';
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { problem } from '../../errors.ts';
import { type Payload, findValueErrors } from '../payload.ts';

/**
 * Reads the field `metadata` of a form as `POST /ingest` reads its body: the same JSON, the same schema,
 * the same rules of values.
 * @throws ProblemError `malformed_request` for what is no JSON, `validation_failed`.
 */
export type ReadMetadata = (request: FastifyRequest, content: Buffer) => Promise<Payload>;

const schema = Type.Ref('PayloadSchema');

/** @param app Knows `PayloadSchema`. */
export function createReadMetadata(app: Server): ReadMetadata {
  const parse = createJsonParser(app);

  return async (request, content) => {
    const value = await new Promise<unknown>((resolve, reject) => {
      parse(request, content.toString(), (cause, parsed) => {
        if (cause === null) resolve(parsed);
        else if (cause instanceof ProblemError) reject(cause);
        else reject(problem('malformed_request', { detail: NO_JSON, cause }));
      });
    });
    // Compiled once and then found by the schema.
    const validate = request.compileValidationSchema(schema, 'body');
    if (!isPayload(value, validate)) {
      const errors = describeErrors('metadata', validate.errors ?? []);
      throw problem('validation_failed', { errors });
    }
    const errors = findValueErrors(value).map(({ path, message }) => ({
      path: path.replace(/^body/, 'metadata'),
      message,
    }));
    if (errors.length > 0) throw problem('validation_failed', { errors });
    return value;
  };
}

const NO_JSON = 'The field "metadata" holds no well-formed JSON.';

function isPayload(value: unknown, validate: (value: unknown) => unknown): value is Payload {
  return validate(value) === true;
}
