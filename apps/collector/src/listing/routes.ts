import { type Server, toPage } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { listDuplicates } from '../duplicates/index.ts';
import { problem, problemAnswers } from '../errors.ts';
import { parseId } from '../schemas.ts';
import { presentListing, pricePerArea } from './listing.ts';
import {
  findListing,
  findProvenance,
  listImages,
  listingExists,
  listSnapshots,
} from './repository.ts';
import {
  historyCursors,
  historySchema,
  imageCursors,
  imagesSchema,
  listingPageQuery,
  listingParams,
  oneListingSchema,
  PAGE_SIZE,
} from './schemas.ts';

/** How many duplicates of a listing are shown. */
const MAX_DUPLICATES = 20;

/** `GET /listings/{id}`, its history and its pictures. Contract 4, Listings. */
export function listingRoutes(app: Server, { db }: { db: Kysely<Tables> }): void {
  const config = { scope: 'search' } as const;
  const about = {
    tags: ['listings'],
    params: listingParams,
  };
  const problems = problemAnswers(401, 403, 'listing_not_found', 422, 503);

  app.get(
    '/listings/:id',
    {
      config,
      schema: {
        ...about,
        summary: 'A listing, where its facts come from, and its likely duplicates',
        response: { 200: oneListingSchema, ...problems },
      },
    },
    async ({ params }) => {
      const id = parseId(params.id);
      const row = await findListing(db, id);
      if (row === undefined) throw problem('listing_not_found');
      const { duplicate_group, ...listing } = row;
      const provenance = await findProvenance(db, id);
      const duplicates = await listDuplicates(db, id, MAX_DUPLICATES);
      return {
        ...presentListing(listing),
        price_per_m2: pricePerArea(listing) ?? null,
        provenance: provenance ?? null,
        duplicate_group,
        duplicates,
      };
    },
  );

  app.get(
    '/listings/:id/history',
    {
      config,
      schema: {
        ...about,
        summary: 'What a listing was and what changed, the newest first',
        querystring: listingPageQuery,
        response: { 200: historySchema, ...problems },
      },
    },
    async (request, reply) => {
      const id = parseId(request.params.id);
      const { limit = PAGE_SIZE, cursor } = request.query;
      const before = historyCursors.read(cursor);
      if (!(await listingExists(db, id))) throw problem('listing_not_found');
      const rows = await listSnapshots(db, id, { limit: limit + 1, before });
      const cursorOf = ({ raw_id: rawId, revision }: (typeof rows)[number]) =>
        historyCursors.write({ rawId, revision });
      return toPage(rows, { limit, cursorOf, request, reply }).map(({ revision, ...row }) => ({
        ...row,
        reprocessed: revision > 0,
        created_at: row.created_at.toISOString(),
      }));
    },
  );

  app.get(
    '/listings/:id/images',
    {
      config,
      schema: {
        ...about,
        summary: "A listing's pictures in their order",
        querystring: listingPageQuery,
        response: { 200: imagesSchema, ...problems },
      },
    },
    async (request, reply) => {
      const id = parseId(request.params.id);
      const { limit = PAGE_SIZE, cursor } = request.query;
      const after = imageCursors.read(cursor);
      if (!(await listingExists(db, id))) throw problem('listing_not_found');
      const rows = await listImages(db, id, { limit: limit + 1, after });
      const cursorOf = (row: (typeof rows)[number]) => imageCursors.write(row.position);
      return toPage(rows, { limit, cursorOf, request, reply });
    },
  );
}
