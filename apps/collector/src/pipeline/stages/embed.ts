import { toVector } from '@oselya/db';
import { sql } from 'kysely';
import { heldListing } from '../../queue/fence.ts';
import { LeaseLostError } from '../../queue/job.ts';
import { product, type StageRun } from '../context.ts';
import { embeddingText, embeddingTextHash } from '../embedding-text.ts';
import { done, skipped, superseded } from '../outcome.ts';

/**
 * Makes the listing's embedding, unless it is of the same text by the same model already: each vector
 * that is replaced leaves a dead one in the index, which costs recall. Vectors of different models
 * cannot be compared, so after a change of the model the same text needs another.
 * @throws ModelError MODEL_INVALID_OUTPUT for a vector that is not finite, zero or of another width.
 */
export const embed: StageRun = async (context, { db, model }, signal) => {
  const { job } = context;
  const listingId = product(context, 'listingId');
  const text = embeddingText(product(context, 'payload').description, product(context, 'facts'));
  const hash = embeddingTextHash(text);
  const current = await db
    .selectFrom('property_listings')
    .select('embedding_text_hash')
    .where('id', '=', listingId)
    .where('embedding', 'is not', null)
    .where('embedding_model', '=', model.embeddingModel)
    .executeTakeFirst();
  if (current?.embedding_text_hash === hash) return skipped;

  const { vectors, model: name } = await model.embed([text], { signal });
  const [vector] = vectors;
  if (vector === undefined) throw new Error('The model client gave no vector for a text');
  const { rows } = await sql<{ is_current: boolean }>`
    with claim as materialized (${heldListing(job, listingId)}),
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
