import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../tables.ts';
import { writeToListing } from '../../queue/fence.ts';
import { requireOutput, type StageRun } from '../context.ts';
import { DONE_RESULT, SUPERSEDED_RESULT } from '../outcome.ts';

type ImageSummary = { stored: number; failed: number; room_types: Record<string, number> };

/** Stores a summary of the listing's images and their room types. Deletes it if the listing has no images. */
export const enrich: StageRun = async (context, { db }) => {
  const listingId = requireOutput(context, 'listingId');
  const summary = await summarizeImages(db, listingId);
  const statement =
    summary === null
      ? sql`delete from listing_enrichments using claim
          where claim.is_current and listing_id = ${listingId} and kind = 'images'`
      : sql`insert into listing_enrichments (listing_id, kind, value)
          select ${listingId}::bigint, 'images', ${JSON.stringify(summary)}::jsonb
          from claim where claim.is_current
          on conflict (listing_id, kind) do update set value = excluded.value, updated_at = now()`;
  return (await writeToListing(db, context.job, statement)) ? DONE_RESULT : SUPERSEDED_RESULT;
};

async function summarizeImages(
  db: Kysely<Tables>,
  listingId: number,
): Promise<ImageSummary | null> {
  const rows = await db
    .selectFrom('listing_images')
    .leftJoin('images', 'images.sha256', 'listing_images.sha256')
    .select(['listing_images.sha256', 'images.room_type'])
    .where('listing_id', '=', listingId)
    .execute();
  if (rows.length === 0) return null;
  const roomTypes: Record<string, number> = {};
  for (const { room_type: roomType } of rows) {
    if (roomType !== null) roomTypes[roomType] = (roomTypes[roomType] ?? 0) + 1;
  }
  const storedCount = rows.filter(({ sha256 }) => sha256 !== null).length;
  return { stored: storedCount, failed: rows.length - storedCount, room_types: roomTypes };
}
