import { extractionPrompt } from '../extraction.ts';
import { done, superseded, unchanged, unchangedText } from '../outcome.ts';
import type { StageRun } from '../stage.ts';
import { loadPayload, noteSeenAgain } from './load.sql.ts';

/**
 * Reads the payload, and ends the job where there is nothing to do: the listing was made from a newer
 * payload, or its last one said the same. In that case it was seen again, so it is in the archive no
 * longer; and it stays as it was read then, although prompt or model may be others now, which is what
 * `oselya reprocess` and `oselya backfill-embeddings` are for. Pictures that could not be had then are
 * looked after all the same. Contract 4, Listings.
 */
export const load: StageRun = async ({ job, products, force, describesAgain }, { db, model }) => {
  const { payload, hasUploads, listingId, currentRawId, reading, ...listing } = await loadPayload(
    db,
    job,
  );
  products.payload = payload;
  products.hasUploads = hasUploads;
  const isOfNow =
    reading?.requestedModel === model.chatModel &&
    reading.promptVersion === extractionPrompt.version;
  if (isOfNow) products.kept = reading;
  if (listingId === null || currentRawId === null) return done;

  products.listingId = listingId;
  if (currentRawId > job.rawId) return superseded;
  if (describesAgain === true) {
    products.onlyPictures = true;
    return unchangedText;
  }
  if (force || listing.completedHash !== job.contentHash) return done;
  // It went through before, and was processed again without being forced.
  const isSame = currentRawId === job.rawId || (await noteSeenAgain(db, job, listingId));
  if (!isSame) return done;
  if (!listing.lacksPictures) return unchanged;
  products.onlyPictures = true;
  return unchangedText;
};
