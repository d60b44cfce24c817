import { toVector } from '@oselya/db';
import { sql } from 'kysely';
import {
  EMBEDDED_COLUMNS,
  embeddingText,
  embeddingTextHash,
  isEmbedded,
} from '../../embeddings/text.ts';
import { heldListing } from '../../queue/fence.ts';
import { LeaseLostError } from '../../queue/job.ts';
import { product } from '../context.ts';
import { done, skipped, superseded } from '../outcome.ts';
import type { StageRun } from '../stage.ts';

/**
 * Makes the listing's embedding, unless it is of the same text by the same model already: each vector
 * that is replaced leaves a dead one in the index, which costs recall. Vectors of different models
 * cannot be compared, so after a change of the model the same text needs another.
 * @throws ModelError MODEL_INVALID_OUTPUT for a vector that is not finite, zero or of another width.
 */
export const embed: StageRun = async (context, { db, model }, signal) => {
  const { job } = context;
  const listingId = product(context, 'listingId');
  const listing = await db
    .selectFrom('property_listings')
    .innerJoin('listing_payloads', (join) =>
      join
        .onRef('listing_payloads.source_slug', '=', 'property_listings.source_slug')
        .onRef('listing_payloads.external_id', '=', 'property_listings.external_id'),
    )
    .select(['raw_id', 'embedding_model', 'embedding_text_hash', ...EMBEDDED_COLUMNS])
    .select(sql<boolean>`embedding is not null`.as('is_embedded'))
    .where('id', '=', listingId)
    .executeTakeFirstOrThrow();
  if (listing.raw_id !== job.rawId) return superseded;
  const text = embeddingText(listing);
  const hash = embeddingTextHash(text);
  if (isEmbedded(listing, { hash, model: model.embeddingModel })) return skipped;

  const { vector, model: name } = await model.embed(text, signal);
  const { rows } = await sql<{ is_current: boolean }>`
    with claim as materialized (${heldListing(job)}),
    written as (
      update property_listings set
        embedding = ${toVector(vector)}::vector,
        embedding_model = ${name},
        embedding_text_hash = ${hash}
      from claim
      where claim.is_current and property_listings.id = ${listingId})
    select is_current from claim`.execute(db);
  if (rows[0] === undefined) throw new LeaseLostError(job);
  return rows[0].is_current ? done : superseded;
};
