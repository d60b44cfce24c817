import type { Server } from '@oselya/kit';
import type { ModelClient } from '@oselya/model';
import { Type } from 'typebox';
import { problemAnswers } from '../errors.ts';
import { parseId } from '../ids.ts';
import { rawParams, sourceSlugSchema } from '../ingest/schemas.ts';
import { choice, nullable } from '../schema.ts';
import type { ReadQueue } from './queue-figures.ts';
import type { Retry } from './retry.ts';

const queueSchema = Type.Object({
  counts: Type.Object({
    pending: Type.Integer(),
    processing: Type.Integer(),
    completed: Type.Integer(),
    invalid: Type.Integer(),
    failed: Type.Integer(),
  }),
  oldest_pending_seconds: nullable(Type.Number()),
  finished_per_minute: Type.Number({ description: 'Over the last five minutes.' }),
  breaker: choice(['closed', 'open', 'half-open'], {
    description: "This process's; while it is open nothing is taken off the queue here.",
  }),
});

const retryBody = Type.Object(
  { status: choice(['failed', 'invalid']), source_slug: Type.Optional(sourceSlugSchema) },
  { additionalProperties: false },
);

/** `GET /admin/queue` and the retries. Contract 4, Operations. */
export function operationRoutes(
  app: Server,
  deps: { readQueue: ReadQueue; model: Pick<ModelClient, 'breaker'>; retry: Retry },
): void {
  const { readQueue, model, retry } = deps;
  const config = { scope: 'admin' } as const;
  const tags = ['operations'];

  app.get(
    '/admin/queue',
    {
      config,
      schema: {
        tags,
        summary: 'How the queue stands',
        response: { 200: queueSchema, ...problemAnswers(401, 403) },
      },
    },
    async () => {
      // Whoever has just put payloads back wants to see them: only a query in progress is shared.
      const figures = await readQueue({ maxAgeMs: 0 });
      return {
        counts: figures.counts,
        oldest_pending_seconds: figures.oldestPendingSeconds,
        finished_per_minute: figures.finishedPerMinute,
        breaker: model.breaker.state,
      };
    },
  );

  app.post(
    '/admin/raw/:raw_id/retry',
    {
      config,
      schema: {
        tags,
        summary: 'Put a failed or invalid payload back in the queue',
        params: rawParams,
        response: {
          200: Type.Object({ raw_id: Type.Integer(), status: Type.Literal('pending') }),
          ...problemAnswers(401, 403, 'raw_not_found', 'not_retryable', 422),
        },
      },
    },
    async ({ params }) => {
      const rawId = parseId(params.raw_id);
      await retry.one(rawId);
      return { raw_id: rawId, status: 'pending' as const };
    },
  );

  app.post(
    '/admin/raw/retry',
    {
      config,
      schema: {
        tags,
        summary: 'Put all failed or all invalid payloads back in the queue',
        body: retryBody,
        response: {
          200: Type.Object({ retried: Type.Integer() }),
          ...problemAnswers(400, 401, 403, 422),
        },
      },
    },
    async ({ body }) => ({ retried: await retry.all(body) }),
  );
}
