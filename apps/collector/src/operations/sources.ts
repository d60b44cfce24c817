import { createCursorCodec, createPageQuery, paginate, type Server } from '@oselya/kit';
import { type Kysely, type RawBuilder, sql } from 'kysely';
import { Type } from 'typebox';
import { createKeptResult } from '../async/kept-result.ts';
import { problem, problemResponses } from '../errors.ts';
import { isEnded } from '../queue/statistics.ts';
import { nullable, RAW_STATUSES, sourceSlugSchema } from '../schemas.ts';
import type { RawStatus, Tables } from '../tables.ts';
import { createAdminRoute } from './payloads.ts';

const PAGE_SIZE = 100;

/** Maximum time for which a request waits for new counts. */
const MAX_WAIT_MS = 5000;

const cursorCodec = createCursorCodec(sourceSlugSchema);

const timeSchema = Type.String({ format: 'date-time' });
const shareSchema = nullable(
  Type.Number({
    minimum: 0,
    maximum: 1,
    description: 'Share of the finished payloads; null without one.',
  }),
);

const countSchemas = Object.fromEntries(
  RAW_STATUSES.map((status) => [status, Type.Integer()]),
) as Record<RawStatus, ReturnType<typeof Type.Integer>>;

const sourcesSchema = Type.Array(
  Type.Object({
    source_slug: Type.String(),
    created_at: timeSchema,
    listings: Type.Integer({ description: 'Number of listings that are not archived.' }),
    archived: Type.Integer({ description: 'Number of archived listings.' }),
    images: Type.Integer({
      description: 'Number of images of the listings, including those that could not be fetched.',
    }),
    payloads: Type.Integer({
      description: 'Number of stored payloads. Removed payloads are not counted.',
    }),
    failed: Type.Integer({ description: 'Number of stored payloads with the status `failed`.' }),
    payloads_by_status: Type.Object(countSchemas),
    invalid_share: shareSchema,
    failed_share: shareSchema,
    last_payload_at: nullable(
      Type.String({ format: 'date-time', description: 'Arrival of the newest stored payload.' }),
    ),
    counted_at: timeSchema,
  }),
  {
    description: 'A page of sources by name; the header `Link` has the next page.',
    examples: [
      [
        {
          source_slug: 'doshka',
          created_at: '2026-03-01T08:00:00.000Z',
          listings: 18_210,
          archived: 940,
          images: 96_400,
          payloads: 90_526,
          failed: 2,
          payloads_by_status: {
            pending: 3,
            processing: 1,
            completed: 90_210,
            invalid: 310,
            failed: 2,
          },
          invalid_share: 0.0034,
          failed_share: 0,
          last_payload_at: '2026-05-04T09:00:00.000Z',
          counted_at: '2026-05-04T09:00:02.000Z',
        },
      ],
    ],
  },
);

/** Registers `GET /sources`. Contract 4, Operations. */
export function registerSourceRoutes(app: Server, { db }: { db: Kysely<Tables> }): void {
  const readFigures = createKeptResult(() => countBySource(db), MAX_WAIT_MS);
  app.get(
    '/sources',
    createAdminRoute({
      summary: 'List the sources with their listings and payloads',
      description:
        'Each process keeps its counts for twenty times as long as counting took, and `counted_at` is their time. While it ' +
        'counts for the first time, at a million listings for some seconds, it answers 503.',
      querystring: Type.Object(createPageQuery({ limit: PAGE_SIZE, maxLimit: 1000 }), {
        additionalProperties: false,
      }),
      response: { 200: sourcesSchema, ...problemResponses(401, 403, 422, 503) },
    }),
    async (request, reply) => {
      const { limit = PAGE_SIZE, cursor } = request.query;
      const after = cursorCodec.read(cursor) ?? '';
      const figures = await readFigures();
      if (figures === undefined)
        throw problem('unavailable', { detail: 'The first count has not finished yet.' });
      const firstIndex = figures.findIndex(({ source_slug: source }) => source > after);
      const rows = firstIndex < 0 ? [] : figures.slice(firstIndex, firstIndex + limit + 1);
      const getCursor = (row: (typeof rows)[number]) => cursorCodec.write(row.source_slug);
      return paginate(rows, { limit, getCursor, request, reply });
    },
  );
}

type Counts = Partial<Record<RawStatus | 'live' | 'archived' | 'images', number>>;

/** Returns the figures of all sources in the order of their names. It reads indexes, except for unfinished payloads. */
async function countBySource(db: Kysely<Tables>) {
  const countedAt = new Date().toISOString();
  const countsBySource = new Map<string, Counts>();
  const lastIds = new Map<string, number>();
  const addCounts = (source: string, counts: Counts) =>
    countsBySource.set(source, { ...countsBySource.get(source), ...counts });

  for (const row of await countListings(db)) addCounts(row.source, row);
  for (const row of await countImages(db)) addCounts(row.source, row);
  for (const { source, status, count, lastId } of await countPayloads(db)) {
    addCounts(source, { [status]: count });
    lastIds.set(source, Math.max(lastId, lastIds.get(source) ?? 0));
  }
  const { rows } = await sql<{ source: string; createdAt: Date; lastPayloadAt: Date | null }>`
    select slug as source, sources.created_at as "createdAt", raw_data.created_at as "lastPayloadAt"
    from sources
    left join unnest(${[...lastIds.keys()]}::text[], ${[...lastIds.values()]}::bigint[])
      as last (source, id) on last.source = slug
    left join raw_data on raw_data.id = last.id
    order by slug collate "C"`.execute(db);
  return rows.map(({ source, createdAt, lastPayloadAt }) => {
    const counts = countsBySource.get(source) ?? {};
    const { live = 0, archived = 0, images = 0, pending = 0, processing = 0 } = counts;
    const { completed = 0, invalid = 0, failed = 0 } = counts;
    const finishedCount = completed + invalid + failed;
    const getShare = (count: number) =>
      finishedCount === 0 ? null : Math.round((count / finishedCount) * 10_000) / 10_000;
    return {
      source_slug: source,
      created_at: createdAt.toISOString(),
      listings: live,
      archived,
      images,
      payloads: pending + processing + finishedCount,
      failed,
      payloads_by_status: { pending, processing, completed, invalid, failed },
      invalid_share: getShare(invalid),
      failed_share: getShare(failed),
      last_payload_at: lastPayloadAt?.toISOString() ?? null,
      counted_at: countedAt,
    };
  });
}

async function countListings(db: Kysely<Tables>) {
  const { rows } = await sql<{ source: string; live: number; archived: number }>`
    select source_slug as source, count(*) - count(archived_at) as live,
      count(archived_at) as archived
    from property_listings group by source_slug`.execute(db);
  return rows;
}

async function countImages(db: Kysely<Tables>) {
  const { rows } = await sql<{ source: string; images: number }>`
    select listing.source_slug as source, count(*) as images
    from listing_images join property_listings as listing on listing.id = listing_id
    group by listing.source_slug`.execute(db);
  return rows;
}

const selectCounts = (isCounted: RawBuilder<unknown>) => sql`
  select source_slug as source, status, count(*) as count, max(id) as "lastId"
  from raw_data where ${isCounted} group by source_slug, status`;

/** Counts payloads by source and status, in two parts with the predicates of two partial indexes. */
async function countPayloads(db: Kysely<Tables>) {
  const { rows } = await sql<{ source: string; status: RawStatus; count: number; lastId: number }>`
    ${selectCounts(isEnded)} union all
    ${selectCounts(sql`status in ('pending', 'processing')`)}`.execute(db);
  return rows;
}
