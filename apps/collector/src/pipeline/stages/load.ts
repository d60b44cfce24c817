import { LeaseLostError, prepared } from '@oselya/db';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../tables.ts';
import type { Corrections } from '../../listing/corrections.ts';
import type { Payload } from '../../ingest/payload.ts';
import { selectHeldClaim } from '../../queue/fence.ts';
import type { FencingToken, Job } from '../../queue/job-types.ts';
import type { StageRun } from '../context.ts';
import { type ExtractionRecord, isCurrentExtraction } from '../extraction.ts';
import {
  DONE_RESULT,
  SUPERSEDED_RESULT,
  UNCHANGED_RESULT,
  UNCHANGED_TEXT_RESULT,
} from '../outcome.ts';

/**
 * Loads the payload. Ends the job if a newer payload has updated the listing or, except when reprocessing, if the
 * listing reflects the same content and has all images. A repeated payload restores an archived listing. Contract 4,
 * Listings.
 */
export const load: StageRun = async (context, { db, model }) => {
  const { job, outputs, extractionRecord, shouldDescribeAgain } = context;
  const loadedPayload = await loadPayload(db, job);
  const { payload, hasUploads, savedExtraction, listingId, currentRawId } = loadedPayload;
  outputs.payload = payload;
  outputs.hasUploads = hasUploads;
  outputs.storedCorrections = loadedPayload.corrections ?? {};
  if (savedExtraction !== null && isCurrentExtraction(savedExtraction, model))
    outputs.savedExtraction = savedExtraction;
  if (listingId === null || currentRawId === null) return DONE_RESULT;

  outputs.listingId = listingId;
  if (currentRawId > job.rawId) return SUPERSEDED_RESULT;
  if (shouldDescribeAgain === true) {
    outputs.isImagesOnly = true;
    return UNCHANGED_TEXT_RESULT;
  }
  if (extractionRecord !== undefined || loadedPayload.completedHash !== job.contentHash)
    return DONE_RESULT;
  const isSamePayload =
    currentRawId === job.rawId || (await recordRepeatedPayload(db, job, listingId));
  if (!isSamePayload) return DONE_RESULT;
  if (!loadedPayload.hasMissingImages) return UNCHANGED_RESULT;
  outputs.isImagesOnly = true;
  return UNCHANGED_TEXT_RESULT;
};

type LoadedPayload = {
  payload: Payload;
  hasUploads: boolean;
  listingId: number | null;
  /** ID of the listing's latest payload. */
  currentRawId: number | null;
  /** Content hash of the latest payload if it has completed all stages. */
  completedHash: string | null;
  hasMissingImages: boolean;
  corrections: Corrections | null;
  /** Extraction of an earlier attempt. */
  savedExtraction: (ExtractionRecord & { promptVersion: string }) | null;
};

/** Condition that a listing has image URLs to retry, or remote images with neither a description nor an error. */
const HAS_MISSING_IMAGES = sql`exists (
  select from listing_images as listing_image left join images using (sha256)
  where listing_image.listing_id = listing.id
    and (listing_image.retry_at <= now()
      or listing_image.url is not null and images.sha256 is not null and images.described_by is null
        and images.describe_error is null))`;

async function loadPayload(db: Kysely<Tables>, job: FencingToken): Promise<LoadedPayload> {
  const { rows } = await sql<LoadedPayload>`${prepared}
    select raw.payload, raw.uploads is not null as "hasUploads", listing.id as "listingId",
      current.raw_id as "currentRawId", current.completed_hash as "completedHash",
      current.corrections,
      ${HAS_MISSING_IMAGES} as "hasMissingImages",
      case when extraction.raw_id is not null then
        json_build_object('extraction', extraction.extraction, 'model', extraction.model,
          'requestedModel', extraction.requested_model, 'promptVersion', extraction.prompt_version)
      end as "savedExtraction"
    from raw_data as raw
    left join raw_readings as extraction on extraction.raw_id = raw.id
      and extraction.revision = raw.revision
    left join property_listings as listing using (source_slug, external_id)
    left join listing_payloads as current using (source_slug, external_id)
    where raw.id = ${job.rawId} and raw.attempt = ${job.attempt} and raw.status = 'processing'`.execute(
    db,
  );
  if (rows[0] === undefined) throw new LeaseLostError();
  return rows[0];
}

/**
 * Records that the source sent the payload again, and restores an archived listing. Locks the listing after the record,
 * because a concurrent archive check must see the record.
 * @returns False if the latest payload of the listing has changed in the meantime.
 * @throws LeaseLostError
 */
async function recordRepeatedPayload(
  db: Kysely<Tables>,
  job: Job,
  listingId: number,
): Promise<boolean> {
  const { rows } = await sql<{ isHeld: boolean; isRecorded: boolean }>`${prepared}
    with claim as materialized (${selectHeldClaim(job)}),
    recorded_payload as (
      update listing_payloads set raw_id = ${job.rawId}
      from claim
      where source_slug = ${job.sourceSlug} and external_id = ${job.externalId}
        and raw_id < ${job.rawId} and completed_hash = ${job.contentHash}
      returning raw_id),
    listing as materialized (
      select property_listings.id, archived_at from recorded_payload, property_listings
      where property_listings.id = ${listingId}
      for no key update of property_listings),
    unarchived as (
      update property_listings set archived_at = null, updated_at = now()
      from listing
      where property_listings.id = listing.id and listing.archived_at is not null)
    select exists (select from claim) as "isHeld", exists (select from recorded_payload) as "isRecorded"`.execute(
    db,
  );
  if (rows[0]?.isHeld !== true) throw new LeaseLostError();
  return rows[0].isRecorded;
}
