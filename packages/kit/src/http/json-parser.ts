import type { FastifyInstance, FastifyRequest } from 'fastify';
import { commonProblem } from '../common-errors.ts';

type Done = (error: Error | null, value?: unknown) => void;

const FORBIDDEN_KEY =
  'The JSON has a key "__proto__", or "constructor" with a key "prototype" in it. Leave such keys out.';

/**
 * Creates the parser of JSON bodies. It rejects keys that could change the prototype of an object with a reason of
 * their own, because Fastify reports such a body as invalid JSON.
 */
export function createJsonParser(
  app: Pick<FastifyInstance, 'getDefaultJsonParser'>,
): (request: FastifyRequest, text: string, done: Done) => void {
  const parse = app.getDefaultJsonParser('error', 'error');
  return (request, text, done) => {
    void parse(request, text, (error, value) => {
      const isForbidden = error !== null && isJson(text);
      done(
        isForbidden ? commonProblem('malformed_request', { detail: FORBIDDEN_KEY }) : error,
        value,
      );
    });
  };
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
