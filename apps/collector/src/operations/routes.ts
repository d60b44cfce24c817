import type { Logger, Server } from '@oselya/kit';
import type { ModelClient } from '@oselya/model';
import type { Kysely } from 'kysely';
import { Type } from 'typebox';
import type { ApiKeyStore } from '../access/api-keys.ts';
import { problemResponses } from '../errors.ts';
import type { ReadQueueStatistics } from '../queue/statistics.ts';
import { choice, nullable, sourceSlugSchema } from '../schemas.ts';
import type { Tables } from '../tables.ts';
import { registerActivityRoutes } from './activity.ts';
import { registerApiKeyRoutes } from './api-keys.ts';
import { type ArchiveCheck, DEADLINE_MS } from './archive-check.ts';
import { createAdminRoute, registerPayloadRoutes, type RawCleanup } from './payloads.ts';
import { registerSourceRoutes } from './sources.ts';

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
          'Number of payloads by status, at the same time. A status with more than 100,000 finished payloads is counted in the ' +
          'background, and is `null` until this process has counted it once.',
      },
    ),
    ended_age_seconds: nullable(
      Type.Number({
        description:
          'Age of the oldest of the counts `completed`, `invalid` and `failed`; `null` while a count is missing. ' +
          'Background counts are up to a minute old, plus one or two seconds for each 100,000 payloads.',
      }),
    ),
    oldest_pending_seconds: nullable(
      Type.Number({
        description:
          'Time since the oldest pending payload arrived or returned to the queue; `null` if no payload is pending. Payloads ' +
          'that returned to the queue precede newer payloads of their source.',
      }),
    ),
    finished_per_minute: Type.Number({
      description: 'Mean number of payloads finished per minute, over the last five minutes.',
    }),
    breaker: choice(['closed', 'open', 'half-open'], {
      description: "State of this process's breaker. The process claims no jobs while it is open.",
    }),
  },
  {
    description: 'State of the queue of all processes.',
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
          'Maximum number of listings. Unchecked listings come first, then the listings with the oldest checks.',
      }),
    ),
    source_slug: Type.Optional(sourceSlugSchema),
    min_interval_seconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: MAX_INTERVAL_SECONDS,
        default: HOUR_SECONDS,
        description:
          'Minimum interval between the two checks that find a listing gone, in seconds.',
      }),
    ),
  },
  { additionalProperties: false, examples: [{ limit: 500, source_slug: 'doshka' }] },
);

const archiveCheckResultSchema = Type.Object(
  {
    checked: Type.Integer({ description: 'Number of requested URLs.' }),
    archived: Type.Integer({ description: 'Number of archived listings.' }),
    unreachable: Type.Integer({
      description: 'Number of URLs that did not respond or are not allowed.',
    }),
  },
  {
    description: 'Result of the check.',
    examples: [{ checked: 100, archived: 3, unreachable: 1 }],
  },
);

/**
 * Registers the routes for administrators. Contract 4, Operations.
 * @param deps.onRetried Called after payloads have returned to the queue.
 */
export function registerOperationRoutes(
  app: Server,
  deps: {
    db: Kysely<Tables>;
    keys: ApiKeyStore;
    log: Logger;
    model: Pick<ModelClient, 'breaker'>;
    readQueue: ReadQueueStatistics;
    archiveCheck: ArchiveCheck;
    rawCleanup: RawCleanup;
    onRetried: () => void;
  },
): void {
  const { model, readQueue, archiveCheck } = deps;
  registerPayloadRoutes(app, { ...deps, cleanup: deps.rawCleanup });
  registerApiKeyRoutes(app, deps);
  registerSourceRoutes(app, deps);
  registerActivityRoutes(app, deps);

  app.get(
    '/admin/queue',
    createAdminRoute({
      summary: 'Get the state of the queue',
      response: { 200: queueSchema, ...problemResponses(401, 403, 503) },
    }),
    async () => ({ ...(await readQueue()), breaker: model.breaker.state }),
  );

  app.post(
    '/admin/archive-check',
    {
      ...createAdminRoute({
        summary: 'Archive listings whose pages are gone',
        description:
          'Requests the URLs of listings. A listing whose URL returns 404 or 410 in two checks ' +
          'at least `min_interval_seconds` apart is archived, and returns when it is ingested again. ' +
          'Any other response, or a payload between the checks, restarts the count; a timeout, a ' +
          'server error or a URL that is not allowed changes nothing. A run ends after ' +
          `${DEADLINE_MS / 1000} seconds with a partial result.`,
        body: archiveCheckBodySchema,
        response: {
          200: archiveCheckResultSchema,
          ...problemResponses(400, 401, 403, 413, 415, 422, 503),
        },
      }),
      preValidation: (request, _reply, done) => {
        // All members are optional, so the body may be missing.
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
