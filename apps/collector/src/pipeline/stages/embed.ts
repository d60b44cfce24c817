import { embeddingText, isEmbedded } from '../../embeddings/text.ts';
import { sha256 } from '../../text.ts';
import { product } from '../context.ts';
import { done, skipped, superseded } from '../outcome.ts';
import type { StageRun } from '../stage.ts';
import { findEmbedded, writeEmbedding } from './embed.sql.ts';

/**
 * Makes the listing's embedding, unless it is of the same text by the same model already: each vector
 * that is replaced leaves a dead one in the index, which costs recall. Vectors of different models
 * cannot be compared, so after a change of the model the same text needs another.
 * @throws ModelError MODEL_INVALID_OUTPUT for a vector that is not finite, zero or of another width.
 */
export const embed: StageRun = async (context, { db, model }, signal) => {
  const { job } = context;
  const listingId = product(context, 'listingId');
  const listing = await findEmbedded(db, listingId);
  if (listing.raw_id !== job.rawId) return superseded;
  const text = embeddingText(listing);
  const hash = sha256(text);
  if (isEmbedded(listing, { hash, model: model.embeddingModel })) return skipped;

  const before = context.embedded?.hash === hash ? context.embedded : undefined;
  const { vector, model: name } = before ?? (await model.embed(text, signal));
  const written = await writeEmbedding(db, job, listingId, { vector, model: name, hash });
  return written ? done : superseded;
};
