import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import { COPY_BITS } from '../images/fingerprint.ts';
import type { Compared } from './compared.ts';
import { MAX_COMPARED_PICTURES } from './compared.sql.ts';
import { AREA_RATIO, PRICE_RATIO } from './ratios.ts';

/** How many listings each look gives at most. Nearer areas come first. */
const MAX_ALIKE = 60;

/** A picture that more listings have is a logo or a view of the whole building: it leads nowhere. */
const MAX_SHOWN = 20;

/** The nearest by meaning: those who copy a text, and say nothing else in facts. */
const NEIGHBOURS = 20;

/**
 * How many listings one is compared with at most, beside those nearest by meaning: to compare words and
 * pictures costs some 0.3 ms each.
 */
export const MAX_CANDIDATES = 280;

/**
 * Finds the listings that are worth comparing with one, by a few looks into indexes, each of which is
 * bounded: of a common shape in a common city, those nearest in area; those with equal or similar
 * pictures; those nearest by meaning. Archived ones are not among them. Where there are too many, those
 * that most looks have found are taken.
 */
export async function findCandidates(trx: Kysely<Tables>, listing: Compared): Promise<number[]> {
  const looks = [...alike(listing), samePictures(listing.id), similarPictures(listing.id)];
  const { rows } = await sql<{ id: number }>`
    select id from (${sql.join(looks, sql` union all `)}) as found
    where id <> ${listing.id}
    group by id order by count(*) desc, id desc limit ${MAX_CANDIDATES}`.execute(trx);
  const ids = new Set(rows.map(({ id }) => id));
  for (const id of await findNeighbours(trx, listing)) ids.add(id);
  return [...ids];
}

/**
 * The looks for listings of the same city, offer, rooms and floor, of about the same area and price. The
 * floor is left out by some, so those without one are looked at too, and all where this one has none. It is
 * the same from both sides: who finds is found.
 */
export function alike(listing: Compared): RawBuilder<{ id: number }>[] {
  const { city_key: city, deal_type: offer, rooms, area_total: area, floor, price } = listing;
  if (city === null || offer === null || area === null) return [];
  const floors = floor === null ? [sql`true`] : [sql`floor = ${floor}`, sql`floor is null`];
  const about = sql`city_key = ${city} and deal_type = ${offer}
    and ${rooms === null ? sql`rooms is null` : sql`rooms = ${rooms}`}
    and ${
      price === null
        ? sql`price is null`
        : sql`price between ${(price / PRICE_RATIO).toFixed(2)}::numeric and ${(price * PRICE_RATIO).toFixed(2)}::numeric`
    }
    and archived_at is null and id <> ${listing.id}`;
  return floors.flatMap((atFloor) => [
    sql<{ id: number }>`(select id from property_listings
      where ${about} and ${atFloor}
        and area_total between ${area} and ${(area * AREA_RATIO).toFixed(2)}::numeric
      order by area_total limit ${MAX_ALIKE})`,
    sql<{ id: number }>`(select id from property_listings
      where ${about} and ${atFloor}
        and area_total >= ${(area / AREA_RATIO).toFixed(2)}::numeric and area_total < ${area}
      order by area_total desc limit ${MAX_ALIKE})`,
  ]);
}

/** Live listings with a picture of which the bytes are the same. */
export function samePictures(listingId: number): RawBuilder<{ id: number }> {
  return sql`(
    select shown.listing_id as id
    from listing_images as own
    cross join lateral (
      select listing_id, count(*) over () as times from (
        select listing_id from listing_images
        where sha256 = own.sha256 and listing_id <> ${listingId} limit ${MAX_SHOWN + 1}) as uses) as shown
    join property_listings on property_listings.id = shown.listing_id and archived_at is null
    where own.listing_id = ${listingId} and own.position < ${MAX_COMPARED_PICTURES}
      and shown.times <= ${MAX_SHOWN})`;
}

/** Live listings with a picture that looks the same. */
export function similarPictures(listingId: number): RawBuilder<{ id: number }> {
  return sql`(
    select shown.listing_id as id
    from listing_images as own
    join images as picture on picture.sha256 = own.sha256 and picture.fingerprint <> 0
    cross join lateral (
      select listing_id, count(*) over () as times from (
        select listing_images.listing_id
        from (
          select sha256 from images
          where fingerprint_parts(fingerprint) && fingerprint_parts(picture.fingerprint)
            and fingerprint <> 0
            and bit_count((fingerprint # picture.fingerprint)::bit(64)) <= ${COPY_BITS}
          limit ${MAX_SHOWN + 1}) as near
        join listing_images on listing_images.sha256 = near.sha256
        where listing_images.listing_id <> ${listingId}
        limit ${MAX_SHOWN + 1}) as uses) as shown
    join property_listings on property_listings.id = shown.listing_id and archived_at is null
    where own.listing_id = ${listingId} and own.position < ${MAX_COMPARED_PICTURES}
      and shown.times <= ${MAX_SHOWN})`;
}

/** Those nearest by meaning, if the listing has a vector: of its model, since others say nothing. */
async function findNeighbours(trx: Kysely<Tables>, { id }: Compared): Promise<number[]> {
  const own = await trx
    .selectFrom('property_listings')
    .select(['embedding', 'embedding_model', 'deal_type'])
    .where('id', '=', id)
    .where('embedding', 'is not', null)
    .executeTakeFirst();
  if (own === undefined) return [];
  const rows = await nearest(own.embedding ?? '').execute(trx);
  return rows.rows
    .filter(
      (row) =>
        row.id !== id &&
        row.embedding_model === own.embedding_model &&
        (row.deal_type === own.deal_type || row.deal_type === null || own.deal_type === null),
    )
    .map((row) => row.id);
}

type Near = { id: number; embedding_model: string | null; deal_type: string | null };

/** What the vectors' index gives at once, without walking on where few pass: that bounds it. */
export function nearest(vector: string): RawBuilder<Near> {
  return sql`
    select id, embedding_model, deal_type from property_listings
    where archived_at is null order by embedding <=> ${vector}::vector limit ${NEIGHBOURS}`;
}
