import { type Kysely, sql } from 'kysely';
import type { RawStatus, Tables } from '../tables.ts';
import type { Job } from './job.ts';
import { isAwaited } from './processed.sql.ts';
import { type Claimant, claimedAgain } from './transitions.sql.ts';

/** A payload that had ended, and how. */
export type JobAgain = Job & { before: RawStatus };

/**
 * Claims the payload that a listing was made from last, to process it again: with all its attempts. Until the
 * listing is written it goes on to pass for what that is made of: whoever finds the claim after this process was
 * killed has nothing to do, and it is as it was. From then on it has to go through every stage.
 * @param options.onlyPictures The claim is for a payload that went through every stage.
 * @returns Undefined where the listing was made from another meanwhile, or will soon be.
 */
export async function claimAgain(
  db: Kysely<Tables>,
  { rawId, listingId }: { rawId: number; listingId: number },
  claimant: Claimant,
  { onlyPictures }: { onlyPictures: boolean } = { onlyPictures: false },
): Promise<JobAgain | undefined> {
  const { rows } = await sql<JobAgain>`
    with chosen as materialized (
      select raw.id, raw.status from raw_data as raw
      join listing_payloads as current on current.raw_id = raw.id
      join property_listings as listing
        on listing.source_slug = current.source_slug and listing.external_id = current.external_id
      where raw.id = ${rawId} and listing.id = ${listingId}
        and raw.status in ('completed', 'failed', 'invalid')
        and (not ${onlyPictures}
          or (raw.status = 'completed' and current.completed_hash = raw.content_hash))
        and not ${isAwaited(sql`raw`)}
      for update of raw skip locked)
    update raw_data set ${claimedAgain(claimant)}
    from chosen where raw_data.id = chosen.id
    returning raw_data.id as "rawId", attempt, source_slug as "sourceSlug",
      external_id as "externalId", content_hash as "contentHash", request_id as "requestId",
      chosen.status as before`.execute(db);
  return rows[0];
}
