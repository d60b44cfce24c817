import { isDatabaseOutage } from '@oselya/db';
import { ProblemError, type Server } from '@oselya/kit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { getCallerKey, CHANGE_REJECTIONS, canUseSource, requireSource } from '../access/guard.ts';
import { createAdmissionLimit } from '../async/concurrency.ts';
import { problem, problemResponses } from '../errors.ts';
import type { Metrics } from '../metrics.ts';
import { MEBIBYTE, parseId } from '../schemas.ts';
import { checkValues, type Payload, PayloadSchema } from './payload.ts';
import { acceptedSchema, ingestHeaders, rawParams, rawSchema } from './schemas.ts';
import type { Ingest, SourceLimit } from './service.ts';
import type { StoredRaw } from './store.ts';

/** Limits of concurrent payloads in one process. Further payloads are rejected with `ingest_busy`. */
const MAX_AT_ONCE = { items: 20_000, bytes: 64 * MEBIBYTE };

/**
 * Registers `POST /ingest` and `GET /raw/{raw_id}`. Only valid payloads count towards the rate limit of their source. Specification
 * 001, Endpoints and Limits; Contract 4, Answers.
 * @param deps.atOnce The maximum number and total size of concurrent payloads.
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
  const inProgress = createAdmissionLimit({
    maxItems: atOnce.items,
    maxBytes: atOnce.bytes,
    reject: () => problem('ingest_busy'),
  });
  app.addSchema(PayloadSchema);
  app.post(
    '/ingest',
    {
      config: { scope: 'ingest', acceptsCompressed: true },
      schema: {
        tags: ['ingest'],
        summary: 'Accept a payload; a worker processes it later',
        description:
          'The body may be compressed, with `Content-Encoding` `gzip`, `deflate` or `br`; decompressed it is at most 1 MiB.',
        headers: ingestHeaders,
        body: Type.Unsafe<Payload>(Type.Ref('PayloadSchema')),
        response: {
          202: acceptedSchema,
          ...problemResponses(...REJECTED, 'ingest_failed', 'ingest_busy'),
        },
      },
      errorHandler: failAsIngest,
      onResponse: async (request, reply) => {
        // The body is missing if the request was rejected before the body was read.
        const body: Payload | undefined = request.body;
        countRequest(metrics, reply, body?.source_slug);
      },
    },
    async (request, reply) => {
      const payload = request.body;
      checkValues(payload);
      requireSource(request, payload.source_slug);
      const accepted = await inProgress(sizeOf(request), async () => {
        reply.headers(await limit(payload.source_slug, getCallerKey(request)));
        return ingest.accept(payload, request.headers['idempotency-key'], request.id);
      });
      markReplayed(reply, accepted);
      return reply.status(202).send({ raw_id: accepted.id, status: 'pending' as const });
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
        response: { 200: rawSchema, ...problemResponses(401, 403, 'raw_not_found', 422, 503) },
      },
    },
    async (request) => {
      const raw = await ingest.find(parseId(request.params.raw_id));
      if (raw === undefined || !canUseSource(request, raw.source_slug)) {
        throw problem('raw_not_found');
      }
      return raw;
    },
  );
}

/** Returns the decompressed size of a body in bytes; `content-length` is smaller for compressed bodies and missing for chunked ones. */
function sizeOf({ headers, body }: FastifyRequest): number {
  const { 'content-length': length, 'content-encoding': encoding } = headers;
  return length === undefined || encoding !== undefined
    ? Buffer.byteLength(JSON.stringify(body))
    : Number(length);
}

const REJECTED = [400, ...CHANGE_REJECTIONS, 'idempotency_conflict', 413, 415, 422, 429] as const;

/**
 * Counts a request by its outcome: `accepted`, `conflict`, `rate_limited`, `failed` (every 5xx), or `refused`. Contract 4,
 * Metrics.
 * @param source The source of a valid payload. Sources of invalid payloads must not become labels.
 */
export function countRequest(
  { ingestRequests }: Pick<Metrics, 'ingestRequests'>,
  { statusCode }: { statusCode: number },
  source: string | undefined,
): void {
  const outcome = outcomeOf(statusCode);
  ingestRequests.inc({ source: outcome === 'refused' ? undefined : source, outcome });
}

function outcomeOf(status: number): string {
  if (status < 300) return 'accepted';
  if (status === 409) return 'conflict';
  if (status === 429) return 'rate_limited';
  return status >= 500 ? 'failed' : 'refused';
}

/**
 * Handles errors of the routes that accept payloads: an unreachable database is a 500 here but a 503 on other routes. Specification
 * 001, Errors; ADR 0009.
 * @throws ProblemError `ingest_failed`; any other error unchanged.
 */
export function failAsIngest(error: Error): never {
  // The limiter throws `unavailable` if it could not count.
  const isUncounted = error instanceof ProblemError && error.code === 'unavailable';
  if (isUncounted || isDatabaseOutage(error)) throw problem('ingest_failed', { cause: error });
  throw error;
}

/** Sets the headers of a replayed response if the payload was stored by an earlier request. Contract 4, Answers. */
export function markReplayed(
  reply: FastifyReply,
  { isNew, status }: Pick<StoredRaw, 'isNew' | 'status'>,
): void {
  if (!isNew) reply.headers({ 'idempotent-replayed': 'true', 'raw-status': status });
}
