import { isReadByNow } from '../extraction.ts';
import { done, superseded, unchanged, unchangedText } from '../outcome.ts';
import type { StageRun } from '../stage.ts';
import { findMade, loadPayload, noteSeenAgain } from './load.sql.ts';

/**
 * Reads the payload, and ends the job where there is nothing to do: the listing was made from a newer
 * payload, or its last one said the same. In that case it was seen again, so it is in the archive no
 * longer; and it stays as it was read then, although prompt or model may be others now, which is what
 * `oselya reprocess` and `oselya backfill-embeddings` are for. Pictures that could not be had then are
 * looked after all the same. Where an earlier attempt has made the listing of this payload and did not come to its
 * end, what it read is found. Contract 4, Listings.
 */
export const load: StageRun = async (context, { db, model }) => {
  const { job, products, force, describesAgain, extracted } = context;
  const { payload, hasUploads, listingId, currentRawId, reading, ...listing } = await loadPayload(
    db,
    job,
  );
  products.payload = payload;
  products.hasUploads = hasUploads;
  if (reading !== null && isReadByNow(reading, model)) products.kept = reading;
  if (listingId === null || currentRawId === null) return done;

  products.listingId = listingId;
  if (currentRawId > job.rawId) return superseded;
  if (describesAgain === true) {
    products.onlyPictures = true;
    return unchangedText;
  }
  if (force || listing.completedHash !== job.contentHash) {
    if (currentRawId < job.rawId || extracted !== undefined) return done;
    const made = await findMade(db, job, listingId);
    if (made !== undefined) products.made = made;
    return done;
  }
  // It went through before, and was processed again without being forced.
  const isSame = currentRawId === job.rawId || (await noteSeenAgain(db, job, listingId));
  if (!isSame) return done;
  if (!listing.lacksPictures) return unchanged;
  products.onlyPictures = true;
  return unchangedText;
};
