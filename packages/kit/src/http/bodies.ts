import { Readable, type Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import type {
  FastifyInstance,
  FastifyRequest,
  onRequestHookHandler,
  preParsingHookHandler,
} from 'fastify';
import { commonProblem } from '../problems.ts';

// oxlint-disable typescript/consistent-type-definitions -- Fastify's declarations can only be extended by interfaces
declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether a body may be compressed; the limit of its size applies after decompression. */
    acceptsCompressed?: boolean;
  }
}

const DECODERS: ReadonlyMap<string, () => Transform> = new Map<string, () => Transform>([
  ['gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
]);

/**
 * Decompresses the body of a request on routes that accept it, and rejects an encoded body with 415 on others. Fastify
 * applies the limit of the body to the decompressed bytes. RFC 9110 §8.4, §12.5.3.
 */
export const decompressBody: preParsingHookHandler = (request, reply, payload, done) => {
  const encoding = request.headers['content-encoding']?.trim().toLowerCase() ?? 'identity';
  const { schema, config } = request.routeOptions;
  if (encoding === 'identity' || schema?.body === undefined) return done(null, payload);
  const accepted = config.acceptsCompressed === true ? [...DECODERS.keys()] : ['identity'];
  const createDecoder = accepted.includes(encoding) ? DECODERS.get(encoding) : undefined;
  if (createDecoder === undefined) {
    const allowed = accepted.join(', ');
    const detail = `The Content-Encoding of this request is not accepted. Use one of: ${allowed}.`;
    const headers = { 'accept-encoding': allowed };
    return done(commonProblem('unsupported_media_type', { detail, headers }));
  }
  const decoder = createDecoder();
  // Where the request is rejected before its body is read, nothing else listens.
  decoder.on('error', () => undefined);
  const decoded = Object.assign(Readable.from(readAll(decoder, encoding), { objectMode: false }), {
    receivedEncodedLength: 0,
  });
  payload.on('data', (chunk: Buffer) => (decoded.receivedEncodedLength += chunk.length));
  payload.once('error', (error) => decoder.destroy(error));
  payload.pipe(decoder);
  // The rest of a rejected body is read, so that its sender gets the answer.
  reply.raw.once('finish', () => payload.unpipe(decoder).resume());
  done(null, decoded);
};

async function* readAll(decoder: Transform, encoding: string): AsyncGenerator<Buffer> {
  try {
    yield* decoder;
  } catch (cause) {
    const detail = `The body is not encoded as its header Content-Encoding says: ${encoding}.`;
    throw commonProblem('malformed_request', { detail, cause });
  }
}

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

/**
 * Ignores the body of a request to a route that takes none: many clients send a content type with every request, and
 * some an empty object. It is not parsed; Node reads it from the connection. RFC 9110 §9.3.5.
 */
export const ignoreUndeclaredBody: onRequestHookHandler = (
  { headers, routeOptions },
  _reply,
  done,
) => {
  if (routeOptions.schema?.body === undefined) {
    delete headers['content-type'];
    delete headers['content-length'];
    delete headers['transfer-encoding'];
  }
  done();
};
