import { Readable, type Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import type { preParsingHookHandler } from 'fastify';
import { commonProblem } from '../common-errors.ts';

// oxlint-disable typescript/consistent-type-definitions -- what Fastify declares can be added to by interfaces only
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
