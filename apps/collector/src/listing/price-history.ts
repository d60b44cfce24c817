import { createCursorCodec, createPageQuery, paginate, type Server } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import { Type } from 'typebox';
import { problem, problemResponses } from '../errors.ts';
import {
  convertedPriceSchema,
  convertPrice,
  readConversion,
  requestedCurrencySchema,
} from '../money/conversion.ts';
import { idParam, MAX_ID, nullable, parseId } from '../schemas.ts';
import type { Tables } from '../tables.ts';

const DEFAULT_PAGE_SIZE = 100;

const cursorCodec = createCursorCodec(Type.Integer({ minimum: 0, maximum: MAX_ID }));

const pricesSchema = Type.Array(
  Type.Object({
    listing_id: Type.Integer(),
    source_slug: Type.String(),
    external_id: Type.String(),
    raw_id: Type.Integer({ description: 'ID of the payload with this price.' }),
    price: nullable(Type.Number()),
    currency: nullable(Type.String()),
    price_converted: convertedPriceSchema,
    changed_at: Type.String({ format: 'date-time' }),
  }),
  {
    description:
      'The first price of each listing and each change, newest first; null if a listing has no price any more. The listings ' +
      'are those of the group of duplicates, and those that a person has judged to be the same property, even if archived.',
    examples: [
      [
        {
          listing_id: 118,
          source_slug: 'misto',
          external_id: 'a-77',
          raw_id: 2051,
          price: 88_500,
          currency: 'USD',
          price_converted: null,
          changed_at: '2026-11-20T09:30:00.000Z',
        },
      ],
    ],
  },
);

type PriceRow = {
  listing_id: number;
  source_slug: string;
  external_id: string;
  raw_id: number;
  price: number | null;
  currency: string | null;
  changed_at: Date;
};

/** Registers `GET /listings/{id}/prices`: the price history of a property over all its listings. Contract 4, Listings. */
export function registerPriceRoute(app: Server, { db }: { db: Kysely<Tables> }): void {
  app.get(
    '/listings/:id/prices',
    {
      config: { scope: 'search' },
      schema: {
        tags: ['listings'],
        summary: 'List the prices of a property in all its listings, newest first',
        params: Type.Object({ id: idParam }),
        querystring: Type.Object({
          ...createPageQuery({ limit: DEFAULT_PAGE_SIZE, maxLimit: 1000 }),
          currency: requestedCurrencySchema,
        }),
        response: {
          200: pricesSchema,
          ...problemResponses(401, 403, 'listing_not_found', 422, 503),
        },
      },
    },
    async (request, reply) => {
      const { limit = DEFAULT_PAGE_SIZE, cursor, currency } = request.query;
      const members = await listMembers(db, parseId(request.params.id));
      const conversion = currency && (await readConversion(db, currency, 'querystring/currency'));
      const beforeRawId = cursorCodec.read(cursor);
      const rows = await listPrices(db, members, { limit: limit + 1, beforeRawId });
      const getCursor = (row: PriceRow) => cursorCodec.write(row.raw_id);
      return paginate(rows, { limit, getCursor, request, reply }).map((row) => ({
        ...row,
        price_converted: convertPrice(row, conversion || undefined),
        changed_at: row.changed_at.toISOString(),
      }));
    },
  );
}

/**
 * Returns the IDs of the listings of the same property, including the given one.
 * @throws ProblemError `listing_not_found`.
 */
async function listMembers(db: Kysely<Tables>, listingId: number): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select id from property_listings where id = ${listingId}
    union
    select other.id from property_listings as listing
    join property_listings as other on other.duplicate_group = listing.duplicate_group
    where listing.id = ${listingId}
    union
    select case low_id when ${listingId} then high_id else low_id end from duplicate_verdicts
    where verdict = 'same' and (low_id = ${listingId} or high_id = ${listingId})`.execute(db);
  if (rows.length === 0) throw problem('listing_not_found');
  return rows.map(({ id }) => id);
}

/** Returns the changes of price, of which a new extraction of the same payload is none: its last revision counts. */
async function listPrices(
  db: Kysely<Tables>,
  listingIds: readonly number[],
  { limit, beforeRawId = MAX_ID }: { limit: number; beforeRawId: number | undefined },
): Promise<PriceRow[]> {
  const { rows } = await sql<PriceRow>`
    with readings as (
      select distinct on (listing_id, raw_id) listing_id, raw_id,
        (listing ->> 'price')::float8 as price, listing ->> 'currency' as currency,
        min(created_at) over (partition by listing_id, raw_id) as changed_at
      from listing_snapshots where listing_id = any(${[...listingIds]}::bigint[])
      order by listing_id, raw_id, revision desc),
    compared as (
      select *, lag(price) over payloads as previous_price,
        lag(currency) over payloads as previous_currency
      from readings window payloads as (partition by listing_id order by raw_id))
    select compared.listing_id, source_slug, external_id, raw_id, compared.price, compared.currency, changed_at
    from compared join property_listings as listing on listing.id = compared.listing_id
    where raw_id < ${beforeRawId}
      and (compared.price, compared.currency) is distinct from (previous_price, previous_currency)
      and coalesce(compared.price, previous_price) is not null
    order by raw_id desc limit ${limit}`.execute(db);
  return rows;
}
