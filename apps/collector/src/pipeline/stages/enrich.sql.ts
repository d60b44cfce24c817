import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../database/tables.ts';
import { type Fence, heldListing, LeaseLostError } from '../../queue/index.ts';

/** The enrichments that the stage owns. */
export type EnrichmentKind = 'price_per_m2' | 'images';

/** The value of each; one that is missing is not known, and what was known of it before goes. */
export type Enrichments = Partial<Record<EnrichmentKind, Record<string, unknown>>>;

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
 * Writes a listing's enrichments of some kinds; one that no longer holds is removed.
 * @returns Whether the listing is still what this job made of it: else nothing is written.
 * @throws LeaseLostError.
 */
export async function replaceEnrichments(
  db: Kysely<Tables>,
  job: Fence,
  listingId: number,
  { kinds, enrichments }: { kinds: readonly EnrichmentKind[]; enrichments: Enrichments },
): Promise<boolean> {
  const { rows } = await sql<{ is_current: boolean }>`
    with claim as materialized (${heldListing(job)}),
    removed as (
      delete from listing_enrichments using claim
      where claim.is_current and listing_id = ${listingId} and kind = any(${[...kinds]})
        and not (${Object.keys(enrichments)}::text[] @> array[kind])),
    written as (
      insert into listing_enrichments (listing_id, kind, value)
      select ${listingId}::bigint, enrichment.key, enrichment.value
      from claim, jsonb_each(${JSON.stringify(enrichments)}::jsonb) as enrichment
      where claim.is_current
      on conflict (listing_id, kind) do update set value = excluded.value, updated_at = now())
    select is_current from claim`.execute(db);
  if (rows[0] === undefined) throw new LeaseLostError(job);
  return rows[0].is_current;
}
