import { cursors, type Server, toPage, whenAbandoned } from '@oselya/kit';
import type { FastifyReply } from 'fastify';
import type { Kysely } from 'kysely';
import { Type } from 'typebox';
import type { Tables } from '../../tables.ts';
import { problemAnswers } from '../../errors.ts';
import { parseId, MAX_ID } from '../../schemas.ts';
import { rawParams } from '../../ingest/schemas.ts';
import { DEADLINE_MS } from '../deadline.ts';
import type { RawCleanup } from './cleanup.ts';
import { listRaw } from './list.sql.ts';
import type { Retry } from './retry.ts';
import {
  cleanupAnswer,
  cleanupQuery,
  listAnswer,
  listQuery,
  PAGE_SIZE,
  retryAllAnswer,
  retryBody,
  retryOneAnswer,
} from './schemas.ts';

const cursor = cursors(
  Type.Object({
    at: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
    id: Type.Integer({ minimum: 1, maximum: MAX_ID }),
  }),
);

const BOUNDED = `It ends after ${DEADLINE_MS / 1000} seconds with what it has done by then: ask again until nothing is left to do.`;

/** A signal for work that is of no use to anybody any more, or has taken as long as a request may. */
function whileAwaited(reply: FastifyReply): AbortSignal {
  return AbortSignal.any([whenAbandoned(reply), AbortSignal.timeout(DEADLINE_MS)]);
}

const config = { scope: 'admin' } as const;
const tags = ['operations'];

/** What admins do with payloads: look through them, retry them, remove old ones. Contract 4, Operations. */
export function rawRoutes(
  app: Server,
  { db, retry, cleanup }: { db: Kysely<Tables>; retry: Retry; cleanup: RawCleanup },
): void {
  listRoute(app, db);
  retryOneRoute(app, retry);
  retryAllRoute(app, retry);
  cleanupRoute(app, cleanup);
}

function listRoute(app: Server, db: Kysely<Tables>): void {
  app.get(
    '/admin/raw',
    {
      config,
      schema: {
        tags,
        summary: 'The payloads of a status, the last changed first',
        description:
          'For whoever must decide what to retry. The payloads themselves are not shown.',
        querystring: listQuery,
        response: { 200: listAnswer, ...problemAnswers(401, 403, 422, 503) },
      },
    },
    async (request, reply) => {
      const { status, source_slug: source, limit = PAGE_SIZE } = request.query;
      const after = cursor.read(request.query.cursor);
      const rows = await listRaw(db, { status, source, after, limit: limit + 1 });
      const cursorOf = ({ at, id }: (typeof rows)[number]) => cursor.write({ at, id });
      const page = toPage(rows, { limit, cursorOf, request, reply });
      return page.map(({ id, at: _at, ...row }) => ({
        raw_id: id,
        ...row,
        created_at: row.created_at.toISOString(),
        updated_at: row.updated_at.toISOString(),
      }));
    },
  );
}

function retryOneRoute(app: Server, retry: Retry): void {
  app.post(
    '/admin/raw/:raw_id/retry',
    {
      config,
      schema: {
        tags,
        summary: 'Put a failed or invalid payload back in the queue',
        description: 'It then has all its attempts again.',
        params: rawParams,
        response: {
          200: retryOneAnswer,
          ...problemAnswers(401, 403, 'raw_not_found', 'not_retryable', 422, 503),
        },
      },
    },
    async ({ params }) => {
      const rawId = parseId(params.raw_id);
      await retry.one(rawId);
      return { raw_id: rawId, status: 'pending' as const };
    },
  );
}

function retryAllRoute(app: Server, retry: Retry): void {
  app.post(
    '/admin/raw/retry',
    {
      config,
      schema: {
        tags,
        summary: 'Put all failed or all invalid payloads back in the queue',
        description:
          'After an outage of the model, or when a source or a prompt was mended. Payloads whose ' +
          'pictures came along are left out: those are gone, so they must be sent again. ' +
          BOUNDED,
        body: retryBody,
        response: { 200: retryAllAnswer, ...problemAnswers(400, 401, 403, 413, 415, 422, 503) },
      },
    },
    async ({ body }, reply) => ({ retried: await retry.all(body, whileAwaited(reply)) }),
  );
}

function cleanupRoute(app: Server, cleanup: RawCleanup): void {
  app.delete(
    '/admin/raw-data',
    {
      config,
      schema: {
        tags,
        summary: 'Remove old completed payloads',
        description:
          'By when they came (`created_at`), whenever they were processed last. Also those that listings were made from: the listings and their history stay, but cannot be ' +
          'processed again. A payload whose `Idempotency-Key` is younger than 24 hours stays. ' +
          BOUNDED,
        querystring: cleanupQuery,
        response: { 200: cleanupAnswer, ...problemAnswers(401, 403, 422, 503) },
      },
    },
    async ({ query }, reply) => ({
      deleted: await cleanup({
        olderThanDays: query.older_than_days,
        signal: whileAwaited(reply),
      }),
    }),
  );
}
