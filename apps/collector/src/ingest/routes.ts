import type { RateLimit, Server } from '@oselya/kit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { mayUseSource } from '../access/guard.ts';
import { problem, problemAnswers } from '../errors.ts';
import { parseId } from '../ids.ts';
import type { Metrics } from '../metrics.ts';
import {
  acceptedSchema,
  ingestHeaders,
  type Payload,
  PayloadSchema,
  rawParams,
  rawSchema,
} from './schemas.ts';
import { checkValues, type Ingest } from './service.ts';

/** Says that a payload had been stored before, under the same idempotency key. */
const REPLAYED = 'idempotent-replayed';

/**
 * `POST /ingest` and `GET /raw/{raw_id}`. A payload is counted against its source's rate only when it
 * is valid. Specification 001, Endpoints and Limits; Contract 4, Answers.
 */
export function ingestRoutes(
  app: Server,
  deps: { ingest: Ingest; limit: RateLimit; metrics: Metrics },
): void {
  const { ingest, limit, metrics } = deps;
  app.addSchema(PayloadSchema);
  app.post(
    '/ingest',
    {
      config: { scope: 'ingest' },
      schema: {
        tags: ['ingest'],
        summary: 'Take a payload in; a worker processes it later',
        headers: ingestHeaders,
        body: Type.Unsafe<Payload>(Type.Ref('PayloadSchema')),
        response: {
          202: acceptedSchema,
          ...problemAnswers(400, 401, 403, 'idempotency_conflict', 413, 415, 422, 429, 503),
        },
      },
      onResponse: async (request, reply) => {
        metrics.ingestRequests.inc(ingestLabels(request, reply));
      },
    },
    async (request, reply) => {
      const payload = request.body;
      checkValues(payload);
      if (!mayUseSource(request, payload.source_slug)) {
        throw problem('forbidden', { detail: 'This API key may not send for this source.' });
      }
      reply.headers(await limit(payload.source_slug));
      const key = request.headers['idempotency-key'];
      const { rawId, isNew } = await ingest.accept(payload, key, request.id);
      if (!isNew) reply.header(REPLAYED, 'true');
      return reply.status(202).send({ raw_id: rawId, status: 'pending' });
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
        response: { 200: rawSchema, ...problemAnswers(401, 403, 'raw_not_found', 422) },
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

const OUTCOMES: Readonly<Record<number, string>> = {
  202: 'accepted',
  409: 'conflict',
  429: 'rate_limited',
  500: 'failed',
};

/** Only a payload that was found valid names a source that may become a label. */
function ingestLabels(
  request: FastifyRequest<{ Body: { source_slug: string } }>,
  reply: FastifyReply,
) {
  const outcome = OUTCOMES[reply.statusCode];
  return outcome === undefined
    ? { source: 'unknown', outcome: 'refused' }
    : { source: request.body?.source_slug ?? 'unknown', outcome };
}
