import { type Kysely, type RawBuilder, type Selectable, sql } from 'kysely';
import { MAX_COPY_DISTANCE } from '../images/decode.ts';
import { type Conversion, readConversion } from '../money/conversion.ts';
import { BASE_CURRENCY } from '../money/rates.ts';
import type { Tables } from '../tables.ts';
import { computeIndexedDistance } from '../search/nearest.ts';

/** Maximum area ratio of duplicates, because measurements differ slightly. Differences below 1 m² do not count. */
export const MAX_AREA_RATIO = 1.03;

/** Maximum price ratio of candidates by facts, because agencies ask different prices. A larger one lowers the score. */
export const MAX_PRICE_RATIO = 1.3;

/** Maximum length of a compared text, in UTF-16 code units. */
export const MAX_TEXT_LENGTH = 4000;

const COMPARED_COLUMNS = [
  'id',
  'archived_at',
  'language',
  'deal_type',
  'property_type',
  'city',
  'city_key',
  'district',
  'place_path',
  'address',
  'rooms',
  'area_total',
  'floor',
  'floors_total',
  'latitude',
  'longitude',
  'price',
  'currency',
  'phones',
] as const satisfies readonly (keyof Tables['property_listings'])[];

/** Listing image. The fingerprint is 0n if the image is blank, and null if no fingerprint was computed. */
export type ComparedImage = { sha256: string; fingerprint: bigint | null };

/** Listing with the data that a comparison needs. */
export type ComparedListing = Pick<
  Selectable<Tables['property_listings']>,
  (typeof COMPARED_COLUMNS)[number]
> & {
  /** Price in hryvnias; null without a price or a rate. */
  amount: number | null;
  /** Price in each currency with a rate, the currency of the listing first; empty without a price. */
  prices: readonly number[];
  /** Beginning of the normalized text. */
  text: string;
  images: readonly ComparedImage[];
};

/** Maximum number of compared images per listing. */
const MAX_COMPARED_IMAGES = 20;

/** Reads the rates by which prices are compared. */
export const readComparedRates = (db: Kysely<Tables>): Promise<Conversion> =>
  readConversion(db, BASE_CURRENCY, undefined);

/**
 * Loads listings for comparison, by ID. Unknown IDs are omitted.
 * @param rates Result of `readComparedRates`.
 */
export async function loadComparedListings(
  db: Kysely<Tables>,
  ids: readonly number[],
  rates: Conversion,
): Promise<Map<number, ComparedListing>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('property_listings')
    .select(COMPARED_COLUMNS)
    .select(sql<string>`left(search_text, ${MAX_TEXT_LENGTH})`.as('text'))
    .select(
      sql<{ sha256: string; fingerprint: string | null }[]>`(
        select coalesce(jsonb_agg(image), '[]') from (
          select distinct on (images.sha256) images.sha256, images.fingerprint::text
          from listing_images join images on images.sha256 = listing_images.sha256
          where listing_images.listing_id = property_listings.id
            and listing_images.position < ${MAX_COMPARED_IMAGES}) as image)`.as('images'),
    )
    .where('id', 'in', ids)
    .execute();
  return new Map(
    rows.map((row) => {
      const images = row.images.map(({ sha256, fingerprint }) => ({
        sha256,
        fingerprint: fingerprint === null ? null : BigInt(fingerprint),
      }));
      return [row.id, { ...row, ...convertToEachCurrency(row, rates), images }];
    }),
  );
}

function convertToEachCurrency(
  { price, currency }: { price: number | null; currency: string | null },
  { factors }: Conversion,
): Pick<ComparedListing, 'amount' | 'prices'> {
  if (price === null) return { amount: null, prices: [] };
  const { factor } = factors.get(currency ?? '') ?? {};
  if (factor === undefined) return { amount: null, prices: [price] };
  const amount = price * factor;
  const otherFactors = [...factors].filter(([code]) => code !== currency);
  return { amount, prices: [price, ...otherFactors.map(([, other]) => amount / other.factor)] };
}

/** Maximum number of listings per query for similar facts; listings with closer areas come first. */
const MAX_LISTINGS_PER_QUERY = 60;

/** Maximum number of other listings with a useful image. Images in more listings are logos or views of the building. */
const MAX_LISTINGS_PER_IMAGE = 20;

/** Maximum number of nearest listings by embedding, which may be copied texts with different facts. */
const MAX_NEIGHBOURS = 20;

/** Maximum number of candidates, not counting the nearest by embedding. A comparison takes about 0.3 ms. */
const MAX_CANDIDATES = 280;

/**
 * Finds the live listings with similar facts, images or meaning, which may be duplicates. Each query is bounded and
 * uses an index. If there are too many candidates, prefers listings that several queries found.
 */
export async function findCandidates(
  trx: Kysely<Tables>,
  listing: ComparedListing,
): Promise<number[]> {
  const queries = [
    ...buildSimilarFactsQueries(listing),
    buildSameImagesQuery(listing.id),
    buildSimilarImagesQuery(listing.id),
  ];
  const { rows } = await sql<{ id: number }>`
    select id from (${sql.join(queries, sql` union all `)}) as candidate
    where id <> ${listing.id}
    group by id order by count(*) desc, id desc limit ${MAX_CANDIDATES}`.execute(trx);
  const neighbours = await findNeighbours(trx, listing.id);
  return [...new Set([...rows.map(({ id }) => id), ...neighbours])];
}

const toNumeric = (value: number) => sql`${value.toFixed(2)}::numeric`;

/**
 * Returns the queries for live listings with the same city, deal type, rooms and floor, and a similar area and price in
 * any currency; none without a city, a deal type or an area. A missing floor matches every floor. The relation is symmetric.
 */
export function buildSimilarFactsQueries(listing: ComparedListing): RawBuilder<{ id: number }>[] {
  const { city_key: city, deal_type: dealType, rooms, area_total: area, floor, prices } = listing;
  if (city === null || dealType === null || area === null) return [];
  const priceRanges = prices.map(
    (price) =>
      sql`price between ${toNumeric(price / MAX_PRICE_RATIO)} and ${toNumeric(price * MAX_PRICE_RATIO)}`,
  );
  const priceCondition =
    priceRanges.length === 0 ? sql`price is null` : sql`(${sql.join(priceRanges, sql` or `)})`;
  const floorConditions =
    floor === null ? [sql`true`] : [sql`floor = ${floor}`, sql`floor is null`];
  return floorConditions.flatMap((floorCondition) => {
    const query = sql`select id from property_listings
      where city_key = ${city} and deal_type = ${dealType}
        and ${rooms === null ? sql`rooms is null` : sql`rooms = ${rooms}`}
        and ${priceCondition} and archived_at is null and id <> ${listing.id} and ${floorCondition}`;
    return [
      sql<{ id: number }>`(${query}
        and area_total between ${area} and ${toNumeric(area * MAX_AREA_RATIO)}
        order by area_total limit ${MAX_LISTINGS_PER_QUERY})`,
      sql<{ id: number }>`(${query}
        and area_total >= ${toNumeric(area / MAX_AREA_RATIO)} and area_total < ${area}
        order by area_total desc limit ${MAX_LISTINGS_PER_QUERY})`,
    ];
  });
}

/** Returns the query for live listings that share an identical image with a listing. */
export function buildSameImagesQuery(listingId: number): RawBuilder<{ id: number }> {
  return sql`(
    select candidate.listing_id as id
    from listing_images as compared
    cross join lateral (
      select listing_id, count(*) over () as listing_count from (
        select listing_id from listing_images
        where sha256 = compared.sha256 and listing_id <> ${listingId} limit ${MAX_LISTINGS_PER_IMAGE + 1}) as usage) as candidate
    ${selectRareImages(listingId)})`;
}

/** Returns the query for live listings that have an image with a similar fingerprint. */
export function buildSimilarImagesQuery(listingId: number): RawBuilder<{ id: number }> {
  return sql`(
    select candidate.listing_id as id
    from listing_images as compared
    join images as image on image.sha256 = compared.sha256 and image.fingerprint <> 0
    cross join lateral (
      select listing_id, count(*) over () as listing_count from (
        select listing_images.listing_id
        from (
          select sha256 from images
          where fingerprint_parts(fingerprint) && fingerprint_parts(image.fingerprint)
            and fingerprint <> 0
            and bit_count((fingerprint # image.fingerprint)::bit(64)) <= ${MAX_COPY_DISTANCE}
          limit ${MAX_LISTINGS_PER_IMAGE + 1}) as similar_image
        join listing_images on listing_images.sha256 = similar_image.sha256
        where listing_images.listing_id <> ${listingId}
        limit ${MAX_LISTINGS_PER_IMAGE + 1}) as usage) as candidate
    ${selectRareImages(listingId)})`;
}

/** Restricts `candidate` to live listings, and `compared` to images that few listings show. */
const selectRareImages = (listingId: number) => sql`
    join property_listings on property_listings.id = candidate.listing_id and archived_at is null
    where compared.listing_id = ${listingId} and compared.position < ${MAX_COMPARED_IMAGES}
      and candidate.listing_count <= ${MAX_LISTINGS_PER_IMAGE}`;

/** Returns the nearest listings whose embedding has the same model and whose deal type does not differ. */
async function findNeighbours(trx: Kysely<Tables>, id: number): Promise<number[]> {
  const listing = await trx
    .selectFrom('property_listings')
    .select(['embedding', 'embedding_model', 'deal_type'])
    .where('id', '=', id)
    .executeTakeFirst();
  if (listing === undefined || listing.embedding === null) return [];
  const { rows } = await buildNearestQuery(listing.embedding).execute(trx);
  return rows
    .filter(
      (row) =>
        row.id !== id &&
        row.embedding_model === listing.embedding_model &&
        (row.deal_type === listing.deal_type ||
          row.deal_type === null ||
          listing.deal_type === null),
    )
    .map((row) => row.id);
}

/** Returns the query for the nearest live listings in the index. Further filters would make the scan unbounded. */
export function buildNearestQuery(
  vector: string,
): RawBuilder<{ id: number; embedding_model: string | null; deal_type: string | null }> {
  return sql`
    select id, embedding_model, deal_type from property_listings
    where archived_at is null order by ${computeIndexedDistance(vector)} limit ${MAX_NEIGHBOURS}`;
}
