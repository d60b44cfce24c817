import { sql } from 'kysely';
import type { Payload } from '../../ingest/schemas.ts';
import { heldClaim } from '../../queue/fence.ts';
import { LeaseLostError } from '../../queue/job.ts';
import { done, superseded, unchanged } from '../outcome.ts';
import type { StageRun } from '../stage.ts';

type Loaded = {
  payload: Payload;
  listingId: number | null;
  listingRawId: number | null;
  completedHash: string | null;
};

/**
 * Reads the payload, and ends the job where there is nothing to do: the listing was made from a newer
 * payload, or its last one said the same. In that case it was seen again, so it is in the archive no
 * longer; and it stays as it was read then, although prompt or model may be others now, which is what
 * `oselya reprocess` and `oselya backfill-embeddings` are for. Contract 4, Listings.
 */
export const load: StageRun = async ({ job, products, force }, { db }) => {
  const { rows } = await sql<Loaded>`
    select raw.payload, listing.id as "listingId", listing.raw_id as "listingRawId",
      listing.completed_hash as "completedHash"
    from raw_data as raw
    left join property_listings as listing
      on listing.source_slug = raw.source_slug and listing.external_id = raw.external_id
    where raw.id = ${job.rawId} and raw.attempt = ${job.attempt} and raw.status = 'processing'`.execute(
    db,
  );
  const loaded = rows[0];
  if (loaded === undefined) throw new LeaseLostError(job);
  products.payload = loaded.payload;
  if (loaded.listingId === null || loaded.listingRawId === null) return done;

  products.listingId = loaded.listingId;
  if (loaded.listingRawId > job.rawId) return superseded;
  if (force || loaded.completedHash !== job.contentHash) return done;

  await sql`
    with claim as materialized (${heldClaim(job)})
    update property_listings set
      raw_id = ${job.rawId},
      updated_at = case when archived_at is null then updated_at else now() end,
      archived_at = null
    from claim
    where property_listings.id = ${loaded.listingId}
      and property_listings.raw_id < ${job.rawId}`.execute(db);
  return unchanged;
};
