import type { RateLimit, Server } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { limitedBy } from '../../access/guard.ts';
import type { Tables } from '../../tables.ts';
import { problemAnswers } from '../../errors.ts';
import { changesAnswer, changesQuery, KEPT_DAYS, PAGE_SIZE } from './schemas.ts';
import { readChanges } from './service.ts';

/**
 * `GET /listings/changes`: what is new, has another price or is back, for programs that keep searches for
 * people. ADR 0021.
 */
export function changeRoutes(
  app: Server,
  { db, limit }: { db: Kysely<Tables>; limit: RateLimit },
): void {
  app.get(
    '/listings/changes',
    {
      config: { scope: 'search' },
      onRequest: limitedBy(limit),
      schema: {
        tags: ['listings'],
        summary: 'Listings that are new, have another price, or are back',
        description:
          'Ask without `after` once, keep the `cursor` of each answer, and give it the next time: no ' +
          'change is left out, however long its transaction took, and none comes twice. Changes are ' +
          `kept for ${KEPT_DAYS} days. A key with a list of sources gets the changes of these. A cursor of what ` +
          'was lost by the restore of an older copy of the database is refused (422): begin again without it.',
        querystring: changesQuery,
        response: { 200: changesAnswer, ...problemAnswers(401, 403, 422, 429, 503) },
      },
    },
    ({ query, apiKey }) =>
      readChanges(db, {
        after: query.after,
        limit: query.limit ?? PAGE_SIZE,
        sources: apiKey?.source_slugs ?? null,
      }),
  );
}
