import { type Server, toPage } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../database.ts';
import { problem, problemAnswers } from '../errors.ts';
import { parseId } from '../ids.ts';
import { presentListing } from './present.ts';
import {
  findListing,
  findWorkedOut,
  listImages,
  listingExists,
  listSnapshots,
} from './repository.ts';
import {
  historyQuery,
  historySchema,
  imagesQuery,
  imagesSchema,
  listingParams,
  oneListingSchema,
  PAGE_SIZE,
} from './schemas.ts';

/** `GET /listings/{id}`, its history and its pictures. Contract 4, Listings. */
export function listingRoutes(app: Server, { db }: { db: Kysely<Tables> }): void {
  const config = { scope: 'search' } as const;
  const about = {
    tags: ['listings'],
    params: listingParams,
  };
  const problems = problemAnswers(401, 403, 'listing_not_found', 422);

  app.get(
    '/listings/:id',
    {
      config,
      schema: {
        ...about,
        summary: 'A listing, and where its facts come from',
        response: { 200: oneListingSchema, ...problems },
      },
    },
    async ({ params }) => {
      const id = parseId(params.id);
      const row = await findListing(db, id);
      if (row === undefined) throw problem('listing_not_found');
      const { pricePerM2 = null, provenance = null } = await findWorkedOut(db, id);
      return { ...presentListing(row), price_per_m2: pricePerM2, provenance };
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
    async (request, reply) => {
      const id = parseId(request.params.id);
      const { limit = PAGE_SIZE, cursor } = request.query;
      if (!(await listingExists(db, id))) throw problem('listing_not_found');
      const rows = await listSnapshots(db, id, { limit: limit + 1, before: cursor });
      const page = toPage(rows, { limit, cursorOf: (row) => row.raw_id, request, reply });
      return page.map((row) => ({ ...row, created_at: row.created_at.toISOString() }));
    },
  );

  app.get(
    '/listings/:id/images',
    {
      config,
      schema: {
        ...about,
        summary: "A listing's pictures in their order",
        querystring: imagesQuery,
        response: { 200: imagesSchema, ...problems },
      },
    },
    async (request, reply) => {
      const id = parseId(request.params.id);
      const { limit = PAGE_SIZE, cursor } = request.query;
      if (!(await listingExists(db, id))) throw problem('listing_not_found');
      const rows = await listImages(db, id, { limit: limit + 1, after: cursor });
      return toPage(rows, { limit, cursorOf: (row) => row.position, request, reply });
    },
  );
}
