import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../tables.ts';
import { type Fence, heldListing, LeaseLostError } from '../../queue/index.ts';

/** What is known of a listing's pictures together: how many there are, and of what rooms. */
export type PictureSummary = { stored: number; failed: number; room_types: Record<string, number> };

/** A listing's pictures: the bytes of each, and what was seen on it. */
export function listPictures(
  db: Kysely<Tables>,
  listingId: number,
): Promise<{ sha256: string | null; room_type: string | null }[]> {
  return db
    .selectFrom('listing_images')
    .leftJoin('images', 'images.sha256', 'listing_images.sha256')
    .select(['listing_images.sha256', 'images.room_type'])
    .where('listing_id', '=', listingId)
    .execute();
}

/**
 * Writes what is known of a listing's pictures together; without any there is nothing.
 * @returns Whether the listing is still what this job made of it: else nothing is written.
 * @throws LeaseLostError.
 */
export async function writePictureSummary(
  db: Kysely<Tables>,
  job: Fence,
  listingId: number,
  pictures: PictureSummary | null,
): Promise<boolean> {
  const { rows } = await sql<{ is_current: boolean }>`
    with claim as materialized (${heldListing(job)}),
    removed as (
      delete from listing_enrichments using claim
      where claim.is_current and listing_id = ${listingId} and kind = 'images'
        and ${pictures === null}::boolean),
    written as (
      insert into listing_enrichments (listing_id, kind, value)
      select ${listingId}::bigint, 'images', ${JSON.stringify(pictures)}::jsonb
      from claim where claim.is_current and ${pictures !== null}::boolean
      on conflict (listing_id, kind) do update set value = excluded.value, updated_at = now())
    select is_current from claim`.execute(db);
  if (rows[0] === undefined) throw new LeaseLostError(job);
  return rows[0].is_current;
}
