import type { Server } from '@oselya/kit';
import type { ModelClient } from '@oselya/model';
import type { Kysely } from 'kysely';
import { Type } from 'typebox';
import { problemResponses } from '../errors.ts';
import type { ReadQueue } from '../queue/statistics.ts';
import { choice, nullable, sourceSlugSchema } from '../schemas.ts';
import type { Tables } from '../tables.ts';
import { type ArchiveCheck, DEADLINE_MS } from './archive-check.ts';
import { createAdminRoute, registerPayloadRoutes, type RawCleanup } from './payloads.ts';

const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 1000;
const HOUR_SECONDS = 3600;
const MAX_INTERVAL_SECONDS = 365 * 24 * HOUR_SECONDS;

const queueSchema = Type.Object(
  {
    counts: Type.Object(
      {
        pending: Type.Integer(),
        processing: Type.Integer(),
        completed: nullable(Type.Integer()),
        invalid: nullable(Type.Integer()),
        failed: nullable(Type.Integer()),
      },
      {
        description:
          'Payloads by status at one moment. A status in which more than 100,000 have ended is counted in the ' +
          'background, and `null` until this process has counted it once.',
      },
    ),
    ended_age_seconds: nullable(
      Type.Number({
        description:
          'The age of the oldest of the counts `completed`, `invalid` and `failed`; `null` while one is missing. Counts ' +
          'made in the background are up to a minute old, and one or two seconds for each 100,000 counted.',
      }),
    ),
    oldest_pending_seconds: nullable(
      Type.Number({
        description:
          'How long the oldest pending payload has waited since it came, or was put back; `null` if none waits. Payloads ' +
          'that were put back precede newer ones of their source.',
      }),
    ),
    finished_per_minute: Type.Number({ description: 'Over the last five minutes.' }),
    breaker: choice(['closed', 'open', 'half-open'], {
      description: 'Of this process, which claims nothing while it is open.',
    }),
  },
  {
    description: 'The queue of all processes.',
    examples: [
      {
        counts: { pending: 12, processing: 4, completed: 90_210, invalid: 310, failed: 2 },
        ended_age_seconds: 0.1,
        oldest_pending_seconds: 3.2,
        finished_per_minute: 118.4,
        breaker: 'closed',
      },
    ],
  },
);

const archiveCheckBodySchema = Type.Object(
  {
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: MAX_LIMIT,
        default: DEFAULT_LIMIT,
        description:
          'How many listings; those that were never checked come first, then those that were checked longest ago.',
      }),
    ),
    source_slug: Type.Optional(sourceSlugSchema),
    min_interval_seconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: MAX_INTERVAL_SECONDS,
        default: HOUR_SECONDS,
        description: 'How far apart two checks must be that find a listing gone.',
      }),
    ),
  },
  { additionalProperties: false, examples: [{ limit: 500, source_slug: 'doshka' }] },
);

const archiveCheckResultSchema = Type.Object(
  {
    checked: Type.Integer({ description: 'Addresses that were requested.' }),
    archived: Type.Integer({ description: 'Of these, listings that were archived.' }),
    unreachable: Type.Integer({
      description: 'Of these, addresses without an answer, and those that are not allowed.',
    }),
  },
  {
    description: 'The result of the check.',
    examples: [{ checked: 100, archived: 3, unreachable: 1 }],
  },
);

/**
 * Registers the routes for administrators. Contract 4, Operations.
 * @param deps.onRetried Called after payloads returned to the queue.
 */
export function registerOperationRoutes(
  app: Server,
  deps: {
    db: Kysely<Tables>;
    model: Pick<ModelClient, 'breaker'>;
    readQueue: ReadQueue;
    archiveCheck: ArchiveCheck;
    rawCleanup: RawCleanup;
    onRetried: () => void;
  },
): void {
  const { model, readQueue, archiveCheck } = deps;
  registerPayloadRoutes(app, { ...deps, cleanup: deps.rawCleanup });

  app.get(
    '/admin/queue',
    createAdminRoute({
      summary: 'The state of the queue',
      response: { 200: queueSchema, ...problemResponses(401, 403, 503) },
    }),
    async () => ({ ...(await readQueue()), breaker: model.breaker.state }),
  );

  app.post(
    '/admin/archive-check',
    {
      ...createAdminRoute({
        summary: 'Archive listings whose addresses are gone',
        description:
          'Requests the addresses of listings. A listing whose address answers 404 or 410 in two checks ' +
          'at least `min_interval_seconds` apart is archived, and comes back when it is ingested again. ' +
          'Any other answer, and a payload between the checks, restart the count; a timeout, a ' +
          'server error or an address that is not allowed changes nothing. A run ends after ' +
          `${DEADLINE_MS / 1000} seconds with what it has done by then.`,
        body: archiveCheckBodySchema,
        response: {
          200: archiveCheckResultSchema,
          ...problemResponses(400, 401, 403, 413, 415, 422, 503),
        },
      }),
      preValidation: (request, _reply, done) => {
        // Every member has a default, so the body may be missing.
        request.body ??= {};
        done();
      },
    },
    async ({ body }) =>
      archiveCheck({
        limit: body.limit ?? DEFAULT_LIMIT,
        source: body.source_slug,
        minIntervalSeconds: body.min_interval_seconds ?? HOUR_SECONDS,
      }),
  );
}
