import { type Kysely, sql } from 'kysely';
import type { Tables } from '../database/tables.ts';
import type { Job } from './job.ts';
import { type Claimant, claimedAgain } from './transitions.sql.ts';

/**
 * Claims the payload that a listing was made from last, to process it again: with all its attempts. Until
 * it went through every stage, it does not pass for what the listing is made of: whoever goes on with it
 * after this process was killed processes it too.
 * @param options.onlyPictures The claim is for a payload that went through every stage, and changes nothing that
 *   was read out of it: it goes on to pass for what the listing is made of.
 * @returns Undefined where the listing was made from another meanwhile, or will soon be.
 */
export async function claimAgain(
  db: Kysely<Tables>,
  { rawId, listingId }: { rawId: number; listingId: number },
  claimant: Claimant,
  { onlyPictures }: { onlyPictures: boolean } = { onlyPictures: false },
): Promise<Job | undefined> {
  const { rows } = await sql<Job>`
    with claimed as (
      update raw_data set ${claimedAgain(claimant)}
      where id = (
        select raw.id from raw_data as raw
        join listing_payloads as current on current.raw_id = raw.id
        join property_listings as listing
          on listing.source_slug = current.source_slug and listing.external_id = current.external_id
        where raw.id = ${rawId} and listing.id = ${listingId}
          and raw.status in ('completed', 'failed', 'invalid')
          and (not ${onlyPictures} or current.completed_hash = raw.content_hash)
          and not exists (
            select from raw_data as other
            where other.source_slug = raw.source_slug and other.external_id = raw.external_id
              and other.status in ('pending', 'processing'))
        for update of raw skip locked)
      returning id, attempt, source_slug, external_id, content_hash, request_id),
    unfinished as (
      update listing_payloads as current set completed_hash = null
      from claimed
      where not ${onlyPictures} and current.source_slug = claimed.source_slug
        and current.external_id = claimed.external_id and current.raw_id = claimed.id)
    select id as "rawId", attempt, source_slug as "sourceSlug", external_id as "externalId",
      content_hash as "contentHash", request_id as "requestId"
    from claimed`.execute(db);
  return rows[0];
}
