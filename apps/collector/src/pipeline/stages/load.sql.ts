import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../tables.ts';
import type { Payload } from '../../ingest/payload.ts';
import { type Fence, heldClaim, type Job, LeaseLostError } from '../../queue/index.ts';
import { FIELD_NAMES } from '../../listing/fields.ts';
import type { Provenance } from '../../listing/provenance.ts';
import type { Extracted } from '../extraction.ts';
import type { Made } from '../merge.ts';
import { factsOf } from '../listing-state.ts';

/** A payload, and what is known of its listing: null where there is none. */
export type Loaded = {
  payload: Payload;
  /** Whether pictures came along with it. */
  hasUploads: boolean;
  listingId: number | null;
  /** The last payload that the listing was made from, or that said the same. */
  currentRawId: number | null;
  /** That payload's content, once it went through every stage. */
  completedHash: string | null;
  /** Whether pictures of it are not had yet, although they may be by now. */
  lacksPictures: boolean;
  /** What an earlier attempt has read out of it, and by which prompt, where it went back (see `keepReading`). */
  reading: (Extracted & { promptVersion: string }) | null;
};

/**
 * Whether a listing has addresses that may be asked again by now, or whose turn an earlier attempt has taken (see
 * `takeDue`), or fetched pictures that nobody has described: then its pictures were looked after for an unchanged
 * payload, and the model failed.
 * One that the model refused is had, as far as it can be.
 */
const LACKS_PICTURES = sql`exists (
  select from listing_images as shown left join images using (sha256)
  where shown.listing_id = listing.id
    and (shown.retry_at <= now() or shown.turn_raw_id = raw.id
      or shown.url is not null and images.sha256 is not null and images.described_by is null
        and images.describe_error is null))`;

/**
 * The payload of a job, and what is known of its listing.
 * @throws LeaseLostError.
 */
export async function loadPayload(db: Kysely<Tables>, job: Fence): Promise<Loaded> {
  const { rows } = await sql<Loaded>`
    select raw.payload, raw.uploads is not null as "hasUploads", listing.id as "listingId",
      current.raw_id as "currentRawId", current.completed_hash as "completedHash",
      ${LACKS_PICTURES} as "lacksPictures",
      case when reading.raw_id is not null then
        json_build_object('extraction', reading.extraction, 'model', reading.model,
          'requestedModel', reading.requested_model, 'promptVersion', reading.prompt_version)
      end as reading
    from raw_data as raw
    left join raw_readings as reading on reading.raw_id = raw.id
      and reading.revision = raw.revision
    left join property_listings as listing using (source_slug, external_id)
    left join listing_payloads as current using (source_slug, external_id)
    where raw.id = ${job.rawId} and raw.attempt = ${job.attempt} and raw.status = 'processing'`.execute(
    db,
  );
  const [loaded] = rows;
  if (loaded === undefined) throw new LeaseLostError(job);
  return loaded;
}

/** What a listing is made of, where that was read out of this payload. */
export async function findMade(
  db: Kysely<Tables>,
  { rawId }: Fence,
  listingId: number,
): Promise<Made | undefined> {
  const row = await db
    .selectFrom('property_listings as listing')
    .innerJoin('listing_enrichments as traced', 'traced.listing_id', 'listing.id')
    .innerJoin('raw_data as raw', (join) => join.on('raw.id', '=', rawId))
    .select(FIELD_NAMES.map((name) => `listing.${name}` as const))
    // Only the pipeline writes it.
    .select(sql<Provenance>`traced.value`.as('provenance'))
    .select(
      sql<boolean>`traced.updated_at >= coalesce(raw.queued_at, raw.created_at)`.as('sinceQueued'),
    )
    .where('listing.id', '=', listingId)
    .where('traced.kind', '=', 'provenance')
    .where(sql<boolean>`traced.value @> ${JSON.stringify({ raw_id: rawId })}::jsonb`)
    .executeTakeFirst();
  if (row === undefined) return undefined;
  const { provenance, sinceQueued, ...state } = row;
  return { facts: factsOf(state), provenance, sinceQueued };
}

/**
 * Notes that the listing's last payload came again. The row of the listing itself stays as it is, and so do
 * its indexes, unless it has to come back from the archive. Whether it has to is looked at under its lock,
 * after the note: a check that archives it either sees the note or is seen (see noteGone).
 * @returns False where the listing is another one by now.
 * @throws LeaseLostError.
 */
export async function noteSeenAgain(
  db: Kysely<Tables>,
  job: Job,
  listingId: number,
): Promise<boolean> {
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
