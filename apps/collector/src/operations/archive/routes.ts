import type { Server } from '@oselya/kit';
import { Type } from 'typebox';
import { problemAnswers } from '../../errors.ts';
import { sourceSlugSchema } from '../../schemas.ts';
import { DEADLINE_MS } from '../deadline.ts';
import type { ArchiveCheck } from './check.ts';

const LIMIT = 100;
const MAX_LIMIT = 1000;
const HOUR_SECONDS = 3600;
const MAX_INTERVAL_SECONDS = 365 * 24 * HOUR_SECONDS;

const checkBody = Type.Object(
  {
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: MAX_LIMIT,
        default: LIMIT,
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

const checkAnswer = Type.Object(
  {
    checked: Type.Integer({ description: 'Addresses that were asked.' }),
    archived: Type.Integer({ description: 'Of these, listings that were archived.' }),
    unreachable: Type.Integer({
      description: 'Of these, addresses that gave no answer, or may not be asked.',
    }),
  },
  {
    description: 'What the check found.',
    examples: [{ checked: 100, archived: 3, unreachable: 1 }],
  },
);

/** `POST /admin/archive-check`. Contract 4, Operations. */
export function archiveRoutes(app: Server, { check }: { check: ArchiveCheck }): void {
  app.post(
    '/admin/archive-check',
    {
      config: { scope: 'admin' },
      schema: {
        tags: ['operations'],
        summary: 'Archive listings whose addresses are gone',
        description:
          'Asks the addresses of listings. A listing whose address answers 404 or 410 on two checks ' +
          'at least `min_interval_seconds` apart is archived, and comes back when it is ingested again. ' +
          'Any other answer, and a payload that came between, makes the count begin anew; a timeout, a ' +
          'server error or an address that may not be asked changes nothing. A run ends after ' +
          `${DEADLINE_MS / 1000} seconds with what it has done by then.`,
        body: checkBody,
        response: { 200: checkAnswer, ...problemAnswers(400, 401, 403, 413, 415, 422, 503) },
      },
      preValidation: (request, _reply, done) => {
        // Every member has a default, so nothing need be sent.
        request.body ??= {};
        done();
      },
    },
    async ({ body }) =>
      check({
        limit: body.limit ?? LIMIT,
        source: body.source_slug,
        minIntervalSeconds: body.min_interval_seconds ?? HOUR_SECONDS,
      }),
  );
}
