import type { Server } from '@oselya/kit';
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { CHANGE_REJECTIONS, mayUseSource, requireSource, callerOf } from '../access/guard.ts';
import { limitInProgress } from '../async/in-progress.ts';
import { problem, problemAnswers } from '../errors.ts';
import { parseId, MEBIBYTE } from '../schemas.ts';
import type { Metrics } from '../metrics.ts';
import { countRequest } from './count-request.ts';
import { failAsIngest } from './failures.ts';
import type { SourceLimit } from './limit-source.ts';
import { markReplayed } from './replayed.ts';
import { acceptedSchema, ingestHeaders, rawParams, rawSchema } from './schemas.ts';
import { type Payload, PayloadSchema } from './payload.ts';
import { checkValues, type Ingest } from './service.ts';

/** What one process takes in at once: past either, more is `ingest_busy`. */
const MAX_AT_ONCE = { items: 20_000, bytes: 64 * MEBIBYTE };

/**
 * `POST /ingest` and `GET /raw/{raw_id}`. A payload is counted against its source's rate only when it
 * is valid. Specification 001, Endpoints and Limits; Contract 4, Answers.
 * @param deps.atOnce Most payloads, and most bytes of them, that are being taken in at once, be it that they wait for
 *   their limits or to be stored.
 */
export function ingestRoutes(
  app: Server,
  deps: {
    ingest: Pick<Ingest, 'accept' | 'find'>;
    limit: SourceLimit;
    atOnce?: { items: number; bytes: number };
    metrics: Metrics;
  },
): void {
  const { ingest, limit, atOnce = MAX_AT_ONCE, metrics } = deps;
  const inProgress = limitInProgress({
    maxItems: atOnce.items,
    maxBytes: atOnce.bytes,
    refuse: () => problem('ingest_busy'),
  });
  app.addSchema(PayloadSchema);
  app.post(
    '/ingest',
    {
      config: { scope: 'ingest', acceptsCompressed: true },
      schema: {
        tags: ['ingest'],
        summary: 'Take a payload in; a worker processes it later',
        description:
          'The body may be compressed, with `Content-Encoding` `gzip`, `deflate` or `br`; decompressed it is at most 1 MiB.',
        headers: ingestHeaders,
        body: Type.Unsafe<Payload>(Type.Ref('PayloadSchema')),
        response: {
          202: acceptedSchema,
          ...problemAnswers(...REFUSED, 'ingest_failed', 'ingest_busy'),
        },
      },
      errorHandler: failAsIngest,
      onResponse: async (request, reply) => {
        // What has no body was refused, or failed, before its body was read.
        const body: Payload | undefined = request.body;
        countRequest(metrics, reply, body?.source_slug);
      },
    },
    async (request, reply) => {
      const payload = request.body;
      checkValues(payload);
      requireSource(request, payload.source_slug);
      const accepted = await inProgress(sizeOf(request), async () => {
        reply.headers(await limit(payload.source_slug, callerOf(request)));
        return ingest.accept(payload, request.headers['idempotency-key'], request.id);
      });
      markReplayed(reply, accepted);
      return reply.status(202).send({ raw_id: accepted.rawId, status: 'pending' as const });
    },
  );

  app.get(
    '/raw/:raw_id',
    {
      config: { scope: 'ingest' },
      schema: {
        tags: ['ingest'],
        summary: "A payload's way through the pipeline",
        params: rawParams,
        response: { 200: rawSchema, ...problemAnswers(401, 403, 'raw_not_found', 422, 503) },
      },
    },
    async (request) => {
      const raw = await ingest.find(parseId(request.params.raw_id));
      if (raw === undefined || !mayUseSource(request, raw.source_slug)) {
        throw problem('raw_not_found');
      }
      return raw;
    },
  );
}

/** Returns the decompressed size of a body in bytes; `content-length` is smaller, or missing for a chunked body. */
function sizeOf({ headers, body }: FastifyRequest): number {
  const { 'content-length': length, 'content-encoding': encoding } = headers;
  return length === undefined || encoding !== undefined
    ? Buffer.byteLength(JSON.stringify(body))
    : Number(length);
}

const REFUSED = [400, ...CHANGE_REJECTIONS, 'idempotency_conflict', 413, 415, 422, 429] as const;
