import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../database/tables.ts';
import type { Payload } from '../../payload/schema.ts';
import { heldClaim } from '../../queue/fence.ts';
import { type Job, LeaseLostError } from '../../queue/job.ts';
import { done, superseded, unchanged, unchangedText } from '../outcome.ts';
import type { StageRun } from '../stage.ts';

type Loaded = {
  payload: Payload;
  listingId: number | null;
  currentRawId: number | null;
  completedHash: string | null;
  lacksPictures: boolean;
};

/**
 * Whether a listing has addresses that may be asked again by now (see `takeDue`), or fetched pictures that
 * nobody has described: then its pictures were looked after for an unchanged payload, and the model failed.
 */
const LACKS_PICTURES = sql`exists (
  select from listing_images as shown left join images using (sha256)
  where shown.listing_id = listing.id
    and (shown.retry_at <= now()
      or shown.url is not null and images.sha256 is not null and images.described_by is null))`;

/**
 * Reads the payload, and ends the job where there is nothing to do: the listing was made from a newer
 * payload, or its last one said the same. In that case it was seen again, so it is in the archive no
 * longer; and it stays as it was read then, although prompt or model may be others now, which is what
 * `oselya reprocess` and `oselya backfill-embeddings` are for. Pictures that could not be had then are
 * looked after all the same. Contract 4, Listings.
 */
export const load: StageRun = async ({ job, products, force }, { db }) => {
  const { rows } = await sql<Loaded>`
    select raw.payload, listing.id as "listingId", current.raw_id as "currentRawId",
      current.completed_hash as "completedHash", ${LACKS_PICTURES} as "lacksPictures"
    from raw_data as raw
    left join property_listings as listing using (source_slug, external_id)
    left join listing_payloads as current using (source_slug, external_id)
    where raw.id = ${job.rawId} and raw.attempt = ${job.attempt} and raw.status = 'processing'`.execute(
    db,
  );
  const loaded = rows[0];
  if (loaded === undefined) throw new LeaseLostError(job);
  products.payload = loaded.payload;
  if (loaded.listingId === null || loaded.currentRawId === null) return done;

  products.listingId = loaded.listingId;
  if (loaded.currentRawId > job.rawId) return superseded;
  if (force || loaded.completedHash !== job.contentHash) return done;
  // It went through before, and was processed again without being forced.
  const isSame = loaded.currentRawId === job.rawId || (await seenAgain(db, job, loaded.listingId));
  if (!isSame) return done;
  if (!loaded.lacksPictures) return unchanged;
  products.onlyPictures = true;
  return unchangedText;
};

/**
 * Notes that the listing's last payload came again. The row of the listing itself stays as it is, and so do
 * its indexes, unless it has to come back from the archive. Whether it has to is looked at under its lock,
 * after the note: a check that archives it either sees the note or is seen (see noteGone).
 * @returns False where the listing is another one by now.
 */
async function seenAgain(db: Kysely<Tables>, job: Job, listingId: number): Promise<boolean> {
  const { rows } = await sql<{ held: boolean; noted: boolean }>`
    with claim as materialized (${heldClaim(job)}),
    noted as (
      update listing_payloads set raw_id = ${job.rawId}
      from claim
      where source_slug = ${job.sourceSlug} and external_id = ${job.externalId}
        and raw_id < ${job.rawId} and completed_hash = ${job.contentHash}
      returning raw_id),
    listing as materialized (
      select property_listings.id, archived_at from noted, property_listings
      where property_listings.id = ${listingId}
      for no key update of property_listings),
    unarchived as (
      update property_listings set archived_at = null, updated_at = now()
      from listing
      where property_listings.id = listing.id and listing.archived_at is not null)
    select exists (select from claim) as held, exists (select from noted) as noted`.execute(db);
  const seen = rows[0];
  if (seen === undefined || !seen.held) throw new LeaseLostError(job);
  return seen.noted;
}
