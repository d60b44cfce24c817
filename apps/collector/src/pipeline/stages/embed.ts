import { toVector } from '@oselya/db';
import { sql } from 'kysely';
import { heldClaim } from '../../queue/fence.ts';
import { LeaseLostError } from '../../queue/job.ts';
import { product, type StageRun } from '../context.ts';
import { embeddingText, embeddingTextHash } from '../embedding-text.ts';
import { done, skipped } from '../outcome.ts';

/**
 * Makes the listing's embedding, unless it is of the same text already: each vector that is replaced
 * leaves a dead one in the index, which costs recall.
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
    .executeTakeFirst();
  if (current?.embedding_text_hash === hash) return skipped;

  const { vectors, model: name } = await model.embed([text], { signal });
  const [vector] = vectors;
  if (vector === undefined) throw new Error('The model client gave no vector for a text');
  const { rows } = await sql`
    with claim as materialized (${heldClaim(job)})
    update property_listings set
      embedding = ${toVector(vector)}::vector,
      embedding_model = ${name},
      embedding_text_hash = ${hash}
    from claim
    where property_listings.id = ${listingId} and property_listings.raw_id = ${job.rawId}
    returning property_listings.id`.execute(db);
  if (rows.length === 0) throw new LeaseLostError(job);
  return done;
};
