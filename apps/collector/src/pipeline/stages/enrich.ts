import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../tables.ts';
import { heldListing } from '../../queue/fence.ts';
import { type Fence, LeaseLostError } from '../../queue/job.ts';
import { product, type StageRun } from '../context.ts';
import { done, superseded } from '../outcome.ts';

/** The images of a listing together: how many there are, and of what rooms. */
type ImageSummary = { stored: number; failed: number; room_types: Record<string, number> };

/** Summarizes the listing's images, without asking the model again. */
export const enrich: StageRun = async (context, { db }) => {
  const listingId = product(context, 'listingId');
  const summary = await summarizeImages(db, listingId);
  return (await writeSummary(db, context.job, listingId, summary)) ? done : superseded;
};

async function summarizeImages(
  db: Kysely<Tables>,
  listingId: number,
): Promise<ImageSummary | null> {
  const images = await db
    .selectFrom('listing_images')
    .leftJoin('images', 'images.sha256', 'listing_images.sha256')
    .select(['listing_images.sha256', 'images.room_type'])
    .where('listing_id', '=', listingId)
    .execute();
  if (images.length === 0) return null;
  const roomTypes: Record<string, number> = {};
  for (const { room_type: type } of images) {
    if (type !== null) roomTypes[type] = (roomTypes[type] ?? 0) + 1;
  }
  const stored = images.filter(({ sha256 }) => sha256 !== null).length;
  return { stored, failed: images.length - stored, room_types: roomTypes };
}

/**
 * @returns False where a newer payload made the listing meanwhile; then nothing is written.
 * @throws LeaseLostError.
 */
async function writeSummary(
  db: Kysely<Tables>,
  job: Fence,
  listingId: number,
  summary: ImageSummary | null,
): Promise<boolean> {
  const { rows } = await sql<{ is_current: boolean }>`
    with claim as materialized (${heldListing(job)}),
    removed as (
      delete from listing_enrichments using claim
      where claim.is_current and listing_id = ${listingId} and kind = 'images'
        and ${summary === null}::boolean),
    written as (
      insert into listing_enrichments (listing_id, kind, value)
      select ${listingId}::bigint, 'images', ${JSON.stringify(summary)}::jsonb
      from claim where claim.is_current and ${summary !== null}::boolean
      on conflict (listing_id, kind) do update set value = excluded.value, updated_at = now())
    select is_current from claim`.execute(db);
  if (rows[0] === undefined) throw new LeaseLostError(job);
  return rows[0].is_current;
}
