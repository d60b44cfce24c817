import { formatVector } from '@oselya/db';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../tables.ts';
import { EMBEDDED_COLUMNS, buildEmbeddingText, isEmbedded } from '../../embeddings/text.ts';
import { joinSameListing } from '../../listing/listing.ts';
import { writeToListing } from '../../queue/fence.ts';
import { sha256 } from '../../text.ts';
import { requireOutput, type StageRun } from '../context.ts';
import { DONE_RESULT, SKIPPED_RESULT, SUPERSEDED_RESULT } from '../outcome.ts';

/**
 * Embeds the listing, unless its text and the model are unchanged: each replaced vector leaves a dead entry in the
 * index, which reduces recall.
 */
export const embed: StageRun = async (context, { db, model }, signal) => {
  const { job } = context;
  const listingId = requireOutput(context, 'listingId');
  const listing = await findEmbedding(db, listingId);
  if (listing.raw_id !== job.rawId) return SUPERSEDED_RESULT;
  const text = buildEmbeddingText(listing);
  const hash = sha256(text);
  if (isEmbedded(listing, { hash, model: model.embeddingModel })) return SKIPPED_RESULT;

  const { vector, model: embeddingModel } = await model.embed(text, signal);
  // As a parameter, the type `vector` would tie the prepared statement to one installation of the extension.
  const isWritten = await writeToListing(
    db,
    job,
    sql`update property_listings set
        embedding = ${formatVector(vector)}::text::vector,
        embedding_model = ${embeddingModel},
        embedding_text_hash = ${hash}
      from claim
      where claim.is_current and property_listings.id = ${listingId}`,
  );
  return isWritten ? DONE_RESULT : SUPERSEDED_RESULT;
};

function findEmbedding(db: Kysely<Tables>, listingId: number) {
  return db
    .selectFrom('property_listings as listing')
    .innerJoin('listing_payloads as current', joinSameListing)
    .select(['raw_id', 'embedding_model', 'embedding_text_hash', ...EMBEDDED_COLUMNS])
    .select(sql<boolean>`embedding is not null`.as('is_embedded'))
    .where('id', '=', listingId)
    .executeTakeFirstOrThrow();
}
