import { isUtf8 } from 'node:buffer';
import { Readable, type Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import type {
  FastifyInstance,
  FastifyRequest,
  onRequestHookHandler,
  preParsingHookHandler,
} from 'fastify';
import { commonProblem } from '../problems.ts';

// oxlint-disable typescript/consistent-type-definitions -- Fastify's declarations can only be merged with interfaces
declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether the route accepts compressed bodies. The size limit applies after decompression. */
    acceptsCompressed?: boolean;
  }
}

const DECODERS: ReadonlyMap<string, () => Transform> = new Map<string, () => Transform>([
  ['gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
]);

/**
 * Decompresses the request bodies of routes with a body schema. Rejects unaccepted encodings with 415. RFC 9110 §8.4,
 * §12.5.3.
 */
export const decompressBody: preParsingHookHandler = (request, reply, payload, done) => {
  const encoding = request.headers['content-encoding']?.trim().toLowerCase() ?? 'identity';
  const { schema, config } = request.routeOptions;
  if (encoding === 'identity' || schema?.body === undefined) return done(null, payload);
  const acceptedEncodings = config.acceptsCompressed === true ? [...DECODERS.keys()] : ['identity'];
  const createDecoder = acceptedEncodings.includes(encoding) ? DECODERS.get(encoding) : undefined;
  if (createDecoder === undefined) {
    const encodingList = acceptedEncodings.join(', ');
    const detail = `The Content-Encoding of this request is not accepted. Use one of: ${encodingList}.`;
    const headers = { 'accept-encoding': encodingList };
    return done(commonProblem('unsupported_media_type', { detail, headers }));
  }
  const decoder = createDecoder();
  // If the request is rejected before its body is read, the decoder has no other listener, and an unhandled error
  // would crash the process.
  decoder.on('error', () => undefined);
  const decodedBody = Object.assign(
    Readable.from(decodeBody(decoder, encoding), { objectMode: false }),
    {
      receivedEncodedLength: 0,
    },
  );
  payload.on('data', (chunk: Buffer) => (decodedBody.receivedEncodedLength += chunk.length));
  payload.once('error', (error) => decoder.destroy(error));
  payload.pipe(decoder);
  // Read the rest of a rejected body, so that the client receives the response.
  reply.raw.once('finish', () => payload.unpipe(decoder).resume());
  done(null, decodedBody);
};

async function* decodeBody(decoder: Transform, encoding: string): AsyncGenerator<Buffer> {
  try {
    yield* decoder;
  } catch (cause) {
    const detail = `The body is not encoded as the header Content-Encoding says: ${encoding}.`;
    throw commonProblem('malformed_request', { detail, cause });
  }
}

type ParseCallback = (error: Error | null, value?: unknown) => void;

const FORBIDDEN_KEY_DETAIL =
  'The JSON has a key "__proto__", or a key "constructor" that contains "prototype". Remove these keys.';

/**
 * Creates the JSON body parser. It rejects invalid UTF-8, and keys that could change an object's prototype, and
 * explains why.
 */
export function createJsonParser(
  app: Pick<FastifyInstance, 'getDefaultJsonParser'>,
): (request: FastifyRequest, body: Buffer, done: ParseCallback) => void {
  const parseJson = app.getDefaultJsonParser('error', 'error');
  return (request, body, done) => {
    if (!isUtf8(body)) {
      return done(commonProblem('malformed_request', { detail: 'The JSON is not valid UTF-8.' }));
    }
    const text = body.toString();
    void parseJson(request, text, (error, value) => {
      const hasForbiddenKey = error !== null && isJson(text);
      if (hasForbiddenKey)
        done(commonProblem('malformed_request', { detail: FORBIDDEN_KEY_DETAIL }));
      else done(error, value);
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
 * Ignores the request body if the route has no body schema. Many clients always send a content type, and some send an
 * empty object. RFC 9110 §9.3.5.
 */
export const ignoreUndeclaredBody: onRequestHookHandler = (request, _reply, done) => {
  const { headers, routeOptions } = request;
  if (routeOptions.schema?.body === undefined) {
    delete headers['content-type'];
    delete headers['content-length'];
    delete headers['transfer-encoding'];
  }
  done();
};
