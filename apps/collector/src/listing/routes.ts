import {
  createCursorCodec,
  createDisconnectSignal,
  createPageQuery,
  type Logger,
  paginate,
  type Server,
} from '@oselya/kit';
import type { ModelClient } from '@oselya/model';
import { type Kysely, sql } from 'kysely';
import { type TSchema, Type } from 'typebox';
import { duplicatesSchema, listDuplicates } from '../duplicates/duplicates.ts';
import { listVerdicts, verdictsSchema } from '../duplicates/verdicts.ts';
import { embedListing } from '../embeddings/backfill.ts';
import { problem, problemResponses } from '../errors.ts';
import { type Conversion, readConversion, requestedCurrencySchema } from '../money/conversion.ts';
import { idParam, MAX_ID, nullable, parseId } from '../schemas.ts';
import type { Tables } from '../tables.ts';
import { correctListing } from './correct.ts';
import {
  correctedBySchema,
  correctionRequestSchema,
  type Corrections,
  correctionsSchema,
} from './corrections.ts';
import {
  listingReference,
  listingSchema,
  type ListingRow,
  presentListing,
  selectListing,
} from './listing.ts';

const MAX_DUPLICATES = 20;

const DEFAULT_PAGE_SIZE = 100;

/** Maximum value of PostgreSQL's `integer`. */
const MAX_INTEGER = 2 ** 31 - 1;

/** Maximum time for which a correction waits for the model. */
const EMBED_TIMEOUT_MS = 10_000;

const createWholeNumberSchema = (maximum: number) => Type.Integer({ minimum: 0, maximum });
const historyCursorCodec = createCursorCodec(
  Type.Object({ id: createWholeNumberSchema(MAX_ID) }, { additionalProperties: false }),
);
const imageCursorCodec = createCursorCodec(createWholeNumberSchema(MAX_INTEGER));

const listingDetailsSchema = Type.Intersect([
  listingReference,
  Type.Object({
    corrections: correctionsSchema,
    duplicate_group: nullable(
      Type.Integer({
        description: 'The smallest ID of the listings that are likely the same property.',
      }),
    ),
    duplicates: duplicatesSchema,
    duplicate_verdicts: verdictsSchema,
  }),
]);

const historySchema = Type.Array(
  Type.Object({
    raw_id: Type.Integer({
      description:
        'ID of the payload that created the snapshot, or that the listing reflected when a person corrected it.',
    }),
    corrected_by: correctedBySchema,
    reprocessed: Type.Boolean({
      description:
        'Whether `oselya reprocess` created the snapshot from an earlier payload, so its source may not have sent a new one.',
    }),
    created_at: Type.String({ format: 'date-time' }),
    changes: Type.Record(Type.String(), Type.Object({ from: Type.Unknown(), to: Type.Unknown() }), {
      description:
        'Changes since the previous snapshot, by field; empty in the first snapshot. `pictures` are URLs, ' +
        'or the SHA-256 of uploaded images.',
    }),
    listing: Type.Object(
      {},
      {
        additionalProperties: true,
        description: 'State of the listing at the time of the snapshot.',
      },
    ),
    model: nullable(Type.String({ description: 'Model that extracted the payload.' })),
    prompt_version: nullable(Type.String()),
  }),
);

const textSchema = nullable(Type.String());
const integerSchema = nullable(Type.Integer());

const imagesSchema = Type.Array(
  Type.Object({
    position: Type.Integer(),
    url: textSchema,
    sha256: nullable(Type.String({ description: 'See GET /api/v1/images/{sha256}.' })),
    error: nullable(Type.String({ description: 'Reason why the image cannot be used.' })),
    media_type: textSchema,
    width: integerSchema,
    height: integerSchema,
    bytes: integerSchema,
    description: textSchema,
    room_type: textSchema,
    quality: textSchema,
    described_by: nullable(
      Type.String({
        description: 'Name of the model that described the image, as its server reported it.',
      }),
    ),
    prompt_version: nullable(
      Type.String({ description: 'Version of the prompt for the description.' }),
    ),
    describe_error: nullable(
      Type.Object(
        {
          code: Type.String(),
          message: Type.String(),
          requested_model: Type.String(),
          prompt_version: Type.String(),
          failed_at: Type.String({ format: 'date-time' }),
        },
        {
          description: 'Reason why the image could not be described, and the request to the model.',
        },
      ),
    ),
  }),
);

const createResponseSchemas = <Schema extends TSchema>(schema: Schema) => ({
  200: schema,
  ...problemResponses(401, 403, 'listing_not_found', 422, 503),
});

/** Registers `GET` and `PATCH /listings/{id}`, and the routes for its history and images. Contract 4, Listings. */
export function registerListingRoutes(
  app: Server,
  deps: {
    db: Kysely<Tables>;
    model: Pick<ModelClient, 'embed' | 'embeddingModel'>;
    log: Logger;
  },
): void {
  const { db, log } = deps;
  app.addSchema(listingSchema);
  const routeConfig = { scope: 'search' } as const;
  const baseSchema = { tags: ['listings'], params: Type.Object({ id: idParam }) };
  const querystring = Type.Object(createPageQuery({ limit: DEFAULT_PAGE_SIZE, maxLimit: 1000 }));
  app.get(
    '/listings/:id',
    {
      config: routeConfig,
      schema: {
        ...baseSchema,
        summary: 'Get a listing, the origin of its fields, and its likely duplicates',
        querystring: Type.Object({ currency: requestedCurrencySchema }),
        response: createResponseSchemas(listingDetailsSchema),
      },
    },
    async ({ params, query: { currency } }) => {
      const conversion =
        currency === undefined
          ? undefined
          : await readConversion(db, currency, 'querystring/currency');
      return readDetails(db, parseId(params.id), conversion);
    },
  );

  app.patch(
    '/listings/:id',
    {
      config: { scope: 'admin' },
      schema: {
        ...baseSchema,
        summary: 'Correct fields of a listing, or undo corrections',
        description:
          'A correction replaces the value of every payload and reading, also of later ones, until it is undone. The history ' +
          'names its author. Search finds the new values at once; similar search follows as soon as the model has answered.',
        body: correctionRequestSchema,
        response: {
          200: listingDetailsSchema,
          ...problemResponses(400, 401, 403, 'listing_not_found', 413, 415, 422, 503),
        },
      },
    },
    async ({ params, body, apiKey }, reply) => {
      const id = parseId(params.id);
      await correctListing(db, id, body, {
        api_key_id: apiKey?.id ?? null,
        api_key_name: apiKey?.name ?? null,
        by: body.by ?? null,
      });
      const timeout = AbortSignal.timeout(EMBED_TIMEOUT_MS);
      const signal = AbortSignal.any([createDisconnectSignal(reply), timeout]);
      await embedListing(deps, id, signal).catch((error: unknown) => {
        log.warn({ err: error, listing_id: id }, 'a corrected listing could not be embedded');
      });
      return readDetails(db, id);
    },
  );

  app.get(
    '/listings/:id/history',
    {
      config: routeConfig,
      schema: {
        ...baseSchema,
        summary: 'List the snapshots of a listing and their changes, newest first',
        querystring,
        response: createResponseSchemas(historySchema),
      },
    },
    async (request, reply) => {
      const id = parseId(request.params.id);
      const { limit = DEFAULT_PAGE_SIZE, cursor } = request.query;
      const beforeId = historyCursorCodec.read(cursor)?.id;
      await requireListing(db, id);
      const rows = await listSnapshots(db, id, { limit: limit + 1, beforeId });
      const writeCursor = ({ id: lastId }: (typeof rows)[number]) =>
        historyCursorCodec.write({ id: lastId });
      return paginate(rows, { limit, getCursor: writeCursor, request, reply }).map(
        ({ id: _id, revision, ...row }) => ({
          ...row,
          reprocessed: revision > 0,
          created_at: row.created_at.toISOString(),
        }),
      );
    },
  );

  app.get(
    '/listings/:id/images',
    {
      config: routeConfig,
      schema: {
        ...baseSchema,
        summary: 'List the images of a listing in order',
        querystring,
        response: createResponseSchemas(imagesSchema),
      },
    },
    async (request, reply) => {
      const id = parseId(request.params.id);
      const { limit = DEFAULT_PAGE_SIZE, cursor } = request.query;
      const afterPosition = imageCursorCodec.read(cursor);
      await requireListing(db, id);
      const rows = await listImages(db, id, { limit: limit + 1, afterPosition });
      const writeCursor = (row: (typeof rows)[number]) => imageCursorCodec.write(row.position);
      return paginate(rows, { limit, getCursor: writeCursor, request, reply });
    },
  );
}

/**
 * Returns a listing with its corrections and likely duplicates.
 * @throws ProblemError `listing_not_found`.
 */
async function readDetails(db: Kysely<Tables>, id: number, conversion?: Conversion) {
  const { rows } = await sql<
    ListingRow & { duplicate_group: number | null; corrections: Corrections | null }
  >`
    select ${selectListing}, duplicate_group, (
      select corrections from listing_payloads as current
      where current.source_slug = property_listings.source_slug
        and current.external_id = property_listings.external_id) as corrections
    from property_listings where id = ${id}`.execute(db);
  const [row] = rows;
  if (row === undefined) throw problem('listing_not_found');
  const { duplicate_group, corrections, ...listing } = row;
  return {
    ...presentListing(listing, conversion),
    corrections: corrections ?? {},
    duplicate_group,
    duplicates: await listDuplicates(db, id, MAX_DUPLICATES),
    duplicate_verdicts: await listVerdicts(db, id),
  };
}

/** Checks that a listing exists. Throws ProblemError `listing_not_found` otherwise. */
async function requireListing(db: Kysely<Tables>, listingId: number): Promise<void> {
  const row = await db
    .selectFrom('property_listings')
    .select('id')
    .where('id', '=', listingId)
    .executeTakeFirst();
  if (row === undefined) throw problem('listing_not_found');
}

function listSnapshots(
  db: Kysely<Tables>,
  listingId: number,
  options: { limit: number; beforeId: number | undefined },
) {
  const { limit, beforeId = MAX_ID } = options;
  return db
    .selectFrom('listing_snapshots')
    .select(['id', 'raw_id', 'revision', 'corrected_by', 'listing', 'changes'])
    .select(['model', 'prompt_version', 'created_at'])
    .where('listing_id', '=', listingId)
    .where('id', '<', beforeId)
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
}

function listImages(
  db: Kysely<Tables>,
  listingId: number,
  { limit, afterPosition = -1 }: { limit: number; afterPosition: number | undefined },
) {
  return db
    .selectFrom('listing_images')
    .leftJoin('images', 'images.sha256', 'listing_images.sha256')
    .select(['listing_images.position', 'listing_images.url', 'listing_images.sha256'])
    .select(['listing_images.error', 'images.media_type', 'images.width', 'images.height'])
    .select(['images.bytes', 'images.description', 'images.room_type', 'images.quality'])
    .select(['images.described_by', 'images.prompt_version', 'images.describe_error'])
    .where('listing_images.listing_id', '=', listingId)
    .where('listing_images.position', '>', afterPosition)
    .orderBy('listing_images.position')
    .limit(limit)
    .execute();
}
