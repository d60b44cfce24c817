import {
  createCursorCodec,
  createPageQuery,
  type Server,
  paginate,
  createDisconnectSignal,
} from '@oselya/kit';
import type { FastifyReply, FastifySchema } from 'fastify';
import { type Kysely, sql } from 'kysely';
import { type Static, Type } from 'typebox';
import { problemResponses } from '../errors.ts';
import { acceptedSchema, rawParams, rawSchema } from '../ingest/routes.ts';
import type { Metrics } from '../metrics.ts';
import { retryPayload, retryPayloads } from '../queue/retry.ts';
import {
  choice,
  MAX_ID,
  nullable,
  parseId,
  rawStatusSchema,
  sourceSlugSchema,
} from '../schemas.ts';
import type { Tables } from '../tables.ts';
import { DEADLINE_MS } from './archive-check.ts';

const PAGE_SIZE = 100;

/** Maximum number of payloads per statement, to hold their locks only briefly. */
const MAX_BATCH_SIZE = 1000;

const DEADLINE_NOTE = `The request ends after ${DEADLINE_MS / 1000} seconds with a partial result: repeat it until the result is 0.`;

/** Codec for cursors with integers, because PostgreSQL rejects some strings that pass as timestamps in JavaScript. */
const cursorCodec = createCursorCodec(
  Type.Object({
    at: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
    id: Type.Integer({ minimum: 1, maximum: MAX_ID }),
  }),
);

const rawListQuerySchema = Type.Object(
  {
    status: rawStatusSchema,
    source_slug: Type.Optional(sourceSlugSchema),
    ...createPageQuery({ limit: PAGE_SIZE, maxLimit: 1000 }),
  },
  { additionalProperties: false },
);

const rawListSchema = Type.Array(
  Type.Object({
    ...Type.Omit(rawSchema, ['stages', 'offers', 'model_usage']).properties,
    request_id: nullable(
      Type.String({ description: 'ID of the request that sent the payload, as in the log.' }),
    ),
  }),
  {
    description: 'A page of payloads; the header `Link` has the next page.',
    examples: [
      [
        {
          raw_id: 4211,
          source_slug: 'doshka',
          external_id: 'flat-1',
          status: 'failed',
          attempts: 3,
          error: {
            code: 'model_failed',
            message: 'The server responded with status 400.',
            stage: 'validate',
          },
          listing_id: null,
          request_id: '2f1d9c52-6a0e-4a39-9c55-0f6c1f8f5b1e',
          created_at: '2026-05-04T09:00:00.000Z',
          updated_at: '2026-05-04T09:00:12.000Z',
        },
      ],
    ],
  },
);

const cleanupQuerySchema = Type.Object(
  {
    older_than_days: Type.Integer({
      minimum: 0,
      maximum: 36_500,
      description: 'Minimum age of the payloads; 0 selects all.',
      examples: [90],
    }),
  },
  { additionalProperties: false },
);

const retryBodySchema = Type.Object(
  { status: choice(['failed', 'invalid']), source_slug: Type.Optional(sourceSlugSchema) },
  { additionalProperties: false, examples: [{ status: 'failed', source_slug: 'doshka' }] },
);

/** Creates the options of an administrator route. */
export const createAdminRoute = <const Schema extends FastifySchema>(schema: Schema) => ({
  config: { scope: 'admin' } as const,
  schema: { tags: ['operations'], ...schema },
});

/** Returns a signal that aborts when the client disconnects or the deadline passes. */
function createRunSignal(reply: FastifyReply): AbortSignal {
  return AbortSignal.any([createDisconnectSignal(reply), AbortSignal.timeout(DEADLINE_MS)]);
}

/**
 * Registers the routes that list, retry and remove payloads. Contract 4, Operations.
 * @param deps.onRetried Called after payloads have returned to the queue.
 */
export function registerPayloadRoutes(
  app: Server,
  deps: { db: Kysely<Tables>; cleanup: RawCleanup; onRetried: () => void },
): void {
  const { db, cleanup, onRetried } = deps;

  app.get(
    '/admin/raw',
    createAdminRoute({
      summary: 'List the payloads with a status, most recently changed first',
      description:
        'Helps administrators to decide which payloads to retry. The content of the payloads is not shown.',
      querystring: rawListQuerySchema,
      response: { 200: rawListSchema, ...problemResponses(401, 403, 422, 503) },
    }),
    async (request, reply) => {
      const { limit = PAGE_SIZE } = request.query;
      const rows = await listRawRecords(db, { ...request.query, limit: limit + 1 });
      const getCursor = ({ at, id }: (typeof rows)[number]) => cursorCodec.write({ at, id });
      const page = paginate(rows, { limit, getCursor, request, reply });
      return page.map(({ id, at: _at, ...row }) => ({
        ...row,
        raw_id: id,
        created_at: row.created_at.toISOString(),
        updated_at: row.updated_at.toISOString(),
      }));
    },
  );

  app.post(
    '/admin/raw/:raw_id/retry',
    createAdminRoute({
      summary: 'Return a failed or invalid payload to the queue',
      description: 'Resets the attempts of the payload.',
      params: rawParams,
      response: {
        200: acceptedSchema,
        ...problemResponses(401, 403, 'raw_not_found', 'not_retryable', 422, 503),
      },
    }),
    async ({ params }) => {
      const rawId = parseId(params.raw_id);
      await retryPayload(db, rawId);
      onRetried();
      return { raw_id: rawId, status: 'pending' as const };
    },
  );

  app.post(
    '/admin/raw/retry',
    createAdminRoute({
      summary: 'Return all failed or all invalid payloads to the queue',
      description:
        'Use it after an outage of the model, or after a source or a prompt was corrected. Payloads with uploaded images are ' +
        `omitted, because their images were deleted: send these payloads again. ${DEADLINE_NOTE}`,
      body: retryBodySchema,
      response: {
        200: Type.Object(
          { retried: Type.Integer() },
          {
            description: 'Number of payloads that returned to the queue.',
            examples: [{ retried: 17 }],
          },
        ),
        ...problemResponses(400, 401, 403, 413, 415, 422, 503),
      },
    }),
    async ({ body }, reply) => ({
      retried: await retryPayloads(db, body, onRetried, createRunSignal(reply)),
    }),
  );

  app.delete(
    '/admin/raw-data',
    createAdminRoute({
      summary: 'Remove old completed payloads',
      description:
        'Removes payloads by their age (`created_at`), even the latest payloads of listings: the listings and their history ' +
        'stay, but cannot be processed again. A payload whose `Idempotency-Key` is younger than 24 hours stays. ' +
        DEADLINE_NOTE,
      querystring: cleanupQuerySchema,
      response: {
        200: Type.Object(
          { deleted: Type.Integer() },
          { description: 'Number of removed payloads.', examples: [{ deleted: 1250 }] },
        ),
        ...problemResponses(401, 403, 422, 503),
      },
    }),
    async ({ query }, reply) => ({
      deleted: await cleanup({
        olderThanDays: query.older_than_days,
        signal: createRunSignal(reply),
      }),
    }),
  );
}

function listRawRecords(
  db: Kysely<Tables>,
  filter: Static<typeof rawListQuerySchema> & { limit: number },
) {
  const { status, source_slug: source, cursor, limit } = filter;
  const position = cursorCodec.read(cursor);
  const isAfter = sql<boolean>`(updated_at, id) < (
    timestamptz 'epoch' + ${position?.at}::bigint * interval '1 microsecond', ${position?.id}::bigint)`;
  return (
    db
      .selectFrom('raw_data')
      .select(['id', 'source_slug', 'external_id', 'status', 'attempts', 'error', 'listing_id'])
      .select(['request_id', 'created_at', 'updated_at'])
      // A Date has only millisecond precision, so the next page would omit records of the same millisecond.
      .select(sql<number>`(extract(epoch from updated_at) * 1000000)::bigint`.as('at'))
      .where('status', '=', status)
      .$if(source !== undefined, (query) => query.where('source_slug', '=', source ?? ''))
      .$if(position !== undefined, (query) => query.where(isAfter))
      .orderBy('updated_at', 'desc')
      .orderBy('id', 'desc')
      .limit(limit)
      .execute()
  );
}

/**
 * Removes completed payloads that are older than `olderThanDays`, in batches, until none is left or the signal aborts.
 * Returns their number.
 */
export type RawCleanup = ReturnType<typeof createRawCleanup>;

/**
 * Creates the cleanup of old payloads, which contain names and telephone numbers.
 * Specification 001, Listing archive; Contract 4, Operations; ADR 0013.
 */
export function createRawCleanup(deps: {
  db: Kysely<Tables>;
  metrics: Pick<Metrics, 'rawDeleted'>;
}) {
  const { db, metrics } = deps;
  return async (options: { olderThanDays: number; signal?: AbortSignal }): Promise<number> => {
    const { olderThanDays, signal } = options;
    const { rows } = await sql<{ cutoff: string }>`
      select (now() - ${olderThanDays} * interval '1 day')::text as cutoff`.execute(db);
    const cutoff = rows[0]?.cutoff ?? '';
    let deletedCount = 0;
    for (let afterId = 0; ;) {
      const batch = await removeBatch(db, cutoff, afterId);
      metrics.rawDeleted.inc(batch.deletedCount);
      deletedCount += batch.deletedCount;
      afterId = batch.lastId;
      if (batch.isLast || signal?.aborted === true) return deletedCount;
    }
  };
}

/** Removes the old completed payloads among the next IDs, except locked ones and those with a valid idempotency key. */
async function removeBatch(db: Kysely<Tables>, cutoff: string, afterId: number) {
  const { rows } = await sql<{ deletedCount: number; isLast: boolean; lastId: number }>`
    with examined as materialized (
      select id, created_at < ${cutoff}::timestamptz as is_old
      from raw_data where id > ${afterId} order by id limit ${MAX_BATCH_SIZE}),
    removable as materialized (
      select raw.id from raw_data as raw join examined using (id)
      where examined.is_old and raw.status = 'completed'
        and (idempotency_key is null or created_at < now() - interval '24 hours')
      for update of raw skip locked),
    deleted as (
      delete from raw_data using removable where raw_data.id = removable.id returning raw_data.id)
    select (select count(*)::integer from deleted) as "deletedCount",
      count(*) < ${MAX_BATCH_SIZE} or not bool_or(is_old) as "isLast", coalesce(max(id), 0) as "lastId"
    from examined`.execute(db);
  return rows[0] ?? { deletedCount: 0, isLast: true, lastId: 0 };
}
