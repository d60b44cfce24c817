import { type Server, sharedProblems } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../database.ts';
import { problem } from '../errors.ts';
import { listingSchema, presentListing } from './present.ts';
import { findListing, listImages, listingExists, listSnapshots } from './repository.ts';
import { historyQuery, historySchema, imagesSchema, listingParams } from './schemas.ts';

/** `GET /listings/{id}`, its history and its pictures. Contract 4, Listings. */
export function listingRoutes(app: Server, { db }: { db: Kysely<Tables> }): void {
  const config = { scope: 'search' } as const;
  const about = {
    tags: ['listings'],
    params: listingParams,
  };
  const problems = sharedProblems(401, 403, 404, 422);

  app.get(
    '/listings/:id',
    {
      config,
      schema: { ...about, summary: 'A listing', response: { 200: listingSchema, ...problems } },
    },
    async ({ params }) => {
      const row = await findListing(db, params.id);
      if (row === undefined) throw problem('listing_not_found');
      return presentListing(row);
    },
  );

  app.get(
    '/listings/:id/history',
    {
      config,
      schema: {
        ...about,
        summary: 'What a listing was and what changed, the newest first',
        querystring: historyQuery,
        response: { 200: historySchema, ...problems },
      },
    },
    async ({ params, query }, reply) => {
      if (!(await listingExists(db, params.id))) throw problem('listing_not_found');
      const { limit, cursor } = query;
      const rows = await listSnapshots(db, params.id, { limit: limit + 1, before: cursor });
      const page = rows.slice(0, limit);
      const last = page.at(-1);
      if (rows.length > limit && last !== undefined) {
        const next = `/api/v1/listings/${params.id}/history?limit=${limit}&cursor=${last.raw_id}`;
        void reply.header('link', `<${next}>; rel="next"`);
      }
      return {
        items: page.map((row) => ({ ...row, created_at: row.created_at.toISOString() })),
      };
    },
  );

  app.get(
    '/listings/:id/images',
    {
      config,
      schema: {
        ...about,
        summary: "A listing's pictures in their order",
        response: { 200: imagesSchema, ...problems },
      },
    },
    async ({ params }) => {
      if (!(await listingExists(db, params.id))) throw problem('listing_not_found');
      return { items: await listImages(db, params.id) };
    },
  );
}
