import { isDatabaseOutage } from '@oselya/db';
import { ProblemError, type Server } from '@oselya/kit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import {
  getCallerKey,
  CHANGE_REJECTIONS,
  canUseSource,
  hasScope,
  requireSource,
} from '../access/guard.ts';
import type { SourceLimit } from '../access/source-limit.ts';
import { createAdmissionLimit } from '../async/concurrency.ts';
import { problem, problemResponses } from '../errors.ts';
import type { Metrics } from '../metrics.ts';
import {
  idParam,
  MEBIBYTE,
  modelUsageSchema,
  nullable,
  parseId,
  rawErrorSchema,
  rawStatusSchema,
  stageSchema,
} from '../schemas.ts';
import { checkValues, type Payload, PayloadSchema } from './payload.ts';
import type { Ingest, StoredRawRecord } from './store.ts';

/** Headers of the routes that accept payloads. Contract 4, Answers. */
export const ingestHeaders = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      pattern: '^[\\x20-\\x7e]+$',
      description:
        'The same key with the same payload within 24 hours gives the same response, with the headers `Idempotent-Replayed: true` and `Raw-Status`, the current status of the payload. A payload that failed within its request (`/ingest/with-images`) releases its key, and can be sent again.',
    }),
  ),
});

/** Response to a stored payload, and to each later request with its idempotency key. Contract 4, Answers. */
export const acceptedSchema = Type.Object(
  { raw_id: Type.Integer(), status: Type.Literal('pending') },
  {
    description: 'The payload waits in the queue.',
    examples: [{ raw_id: 4211, status: 'pending' }],
  },
);

export const rawParams = Type.Object({ raw_id: idParam });

/** Raw record without its payload. Contract 4, Answers. */
export const rawSchema = Type.Object({
  raw_id: Type.Integer(),
  source_slug: Type.String(),
  external_id: Type.String(),
  status: rawStatusSchema,
  attempts: Type.Integer(),
  error: rawErrorSchema,
  stages: Type.Array(stageSchema, {
    description:
      'The last run of each stage, in chronological order. If the last attempt did not reach or need a stage, its run ' +
      'is from an earlier attempt.',
  }),
  listing_id: nullable(Type.Integer()),
  offers: nullable(
    Type.Integer({
      description:
        'Number of properties or deals that the text of the listing offers. The text was not split: the listing has the first ' +
        'of them. Null for one.',
    }),
  ),
  model_usage: nullable(modelUsageSchema),
  created_at: Type.String({ format: 'date-time' }),
  updated_at: Type.String({ format: 'date-time' }),
});

const rawWithPayloadSchema = Type.Object({
  ...rawSchema.properties,
  payload: Type.Optional(
    Type.Object(
      {},
      {
        additionalProperties: true,
        description: 'The payload as its source sent it, for API keys with the scope `admin`.',
      },
    ),
  ),
});

const MAX_IN_PROGRESS = { maxItems: 20_000, maxBytes: 64 * MEBIBYTE };

/**
 * Registers `POST /ingest` and `GET /raw/{raw_id}`. Only valid payloads count towards the limit on their source.
 * Specification 001, Endpoints and Limits; Contract 4, Answers.
 * @param deps.bounds Limits on concurrent payloads.
 */
export function registerIngestRoutes(
  app: Server,
  deps: {
    ingest: Pick<Ingest, 'accept' | 'find'>;
    limit: SourceLimit;
    bounds?: { maxItems: number; maxBytes: number };
    metrics: Metrics;
  },
): void {
  const { ingest, limit, bounds = MAX_IN_PROGRESS, metrics } = deps;
  const admit = createAdmissionLimit({ ...bounds, reject: () => problem('ingest_busy') });
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
          ...problemResponses(
            400,
            ...CHANGE_REJECTIONS,
            'idempotency_conflict',
            413,
            415,
            422,
            429,
            'ingest_failed',
            'ingest_busy',
          ),
        },
      },
      errorHandler: mapIngestError,
      onResponse: async (request, reply) => {
        // A request that is rejected early has no body.
        const body: Payload | undefined = request.body;
        countRequest(metrics, reply, body?.source_slug);
      },
    },
    async (request, reply) => {
      const payload = request.body;
      checkValues(payload);
      requireSource(request, payload.source_slug);
      const storedRecord = await admit(getBodyBytes(request), async () => {
        reply.headers(await limit(payload.source_slug, getCallerKey(request)));
        return ingest.accept(payload, request.headers['idempotency-key'], request.id);
      });
      markReplayed(reply, storedRecord);
      return reply.status(202).send({ raw_id: storedRecord.id, status: 'pending' as const });
    },
  );

  app.get(
    '/raw/:raw_id',
    {
      config: { scope: ['ingest', 'admin'] },
      schema: {
        tags: ['ingest'],
        summary: 'The state of a payload in the pipeline',
        params: rawParams,
        response: {
          200: rawWithPayloadSchema,
          ...problemResponses(401, 403, 'raw_not_found', 422, 503),
        },
      },
    },
    async (request) => {
      const rawRecord = await ingest.find(parseId(request.params.raw_id), {
        includePayload: hasScope(request, 'admin'),
      });
      if (rawRecord === undefined || !canUseSource(request, rawRecord.source_slug)) {
        throw problem('raw_not_found');
      }
      return rawRecord;
    },
  );
}

/** Returns the decompressed size of a body. `content-length` may be missing, or give the compressed size. */
function getBodyBytes({ headers, body }: FastifyRequest): number {
  const { 'content-length': length, 'content-encoding': encoding } = headers;
  return length === undefined || encoding !== undefined
    ? Buffer.byteLength(JSON.stringify(body))
    : Number(length);
}

/**
 * Counts a request by its outcome. Contract 4, Metrics.
 * @param source Source of the payload, if it was read. A rejected payload is counted without its source, because an
 *   invalid source must not create a label.
 */
export function countRequest(
  { ingestRequests }: Pick<Metrics, 'ingestRequests'>,
  { statusCode }: { statusCode: number },
  source: string | undefined,
): void {
  const outcome = toOutcome(statusCode);
  ingestRequests.inc({ source: outcome === 'refused' ? undefined : source, outcome });
}

function toOutcome(status: number): string {
  if (status < 300) return 'accepted';
  if (status === 409) return 'conflict';
  if (status === 429) return 'rate_limited';
  return status >= 500 ? 'failed' : 'refused';
}

/**
 * Handles errors of ingest routes. A database outage is a 500 here, but a 503 on other routes. Specification 001,
 * Errors; ADR 0009.
 * @throws ProblemError `ingest_failed`, or the unchanged error.
 */
export function mapIngestError(error: Error): never {
  // The rate limit throws `unavailable` if the database is unreachable.
  const isLimitUnavailable = error instanceof ProblemError && error.code === 'unavailable';
  if (isLimitUnavailable || isDatabaseOutage(error))
    throw problem('ingest_failed', { cause: error });
  throw error;
}

/** Sets the headers of the response to a repeated idempotency key. Contract 4, Answers. */
export function markReplayed(
  reply: FastifyReply,
  { isNew, status }: Pick<StoredRawRecord, 'isNew' | 'status'>,
): void {
  if (!isNew) reply.headers({ 'idempotent-replayed': 'true', 'raw-status': status });
}
