import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../tables.ts';
import { writeToListing } from '../../queue/fence.ts';
import { SupersededError } from '../../queue/job.ts';
import { product, type StageRun } from '../context.ts';
import { done, skipped, superseded } from '../outcome.ts';

/**
 * Stores and describes the images that came with the payload, or those that it names; the listing then has these and
 * no others. A bad image is recorded with its reason and never fails the listing. A payload that is only read again
 * leaves the images as they are, but has those described that have no description.
 */
export const images: StageRun = async (context, deps, signal) => {
  const { uploads, extracted, describesAgain = false } = context;
  const urls = product(context, 'payload').image_urls ?? [];
  const { rawId, attempt } = context.job;
  const job = {
    listingId: product(context, 'listingId'),
    fence: { rawId, attempt },
    signal,
    observe: deps.model.observe,
  };
  if (extracted !== undefined || describesAgain) {
    const count = await deps.images.describeAll(job, { outdated: describesAgain });
    return count > 0 ? done : skipped;
  }
  // They came along with an earlier attempt, and the listing keeps them.
  if (uploads === undefined && product(context, 'hasUploads')) return skipped;
  try {
    if (uploads === undefined) {
      const onlyDue = context.products.onlyImages;
      await deps.images.processRemote({ ...job, urls, onlyDue });
    } else await deps.images.processUploaded({ ...job, files: uploads });
  } catch (error) {
    if (error instanceof SupersededError) return superseded;
    throw error;
  }
  return (uploads ?? urls).length === 0 ? skipped : done;
};

/** The images of a listing together: how many there are, and of what rooms. */
type ImageSummary = { stored: number; failed: number; room_types: Record<string, number> };

/** Summarizes the listing's images, without asking the model again. */
export const enrich: StageRun = async (context, { db }) => {
  const listingId = product(context, 'listingId');
  const summary = await summarizeImages(db, listingId);
  const write =
    summary === null
      ? sql`delete from listing_enrichments using claim
          where claim.is_current and listing_id = ${listingId} and kind = 'images'`
      : sql`insert into listing_enrichments (listing_id, kind, value)
          select ${listingId}::bigint, 'images', ${JSON.stringify(summary)}::jsonb
          from claim where claim.is_current
          on conflict (listing_id, kind) do update set value = excluded.value, updated_at = now()`;
  return (await writeToListing(db, context.job, write)) ? done : superseded;
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
  for (const { room_type: type } of rows) {
    if (type !== null) roomTypes[type] = (roomTypes[type] ?? 0) + 1;
  }
  const stored = rows.filter(({ sha256 }) => sha256 !== null).length;
  return { stored, failed: rows.length - stored, room_types: roomTypes };
}
