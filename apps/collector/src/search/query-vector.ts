import { toVector } from '@oselya/db';
import type { ModelClient } from '@oselya/model';
import { problem } from '../errors.ts';

/** What search needs of the model client. */
export type Embedder = Pick<ModelClient, 'embed'>;

/** A place to search around, and the model that knows it; null where that is not known. */
export type QueryVector = { vector: string; embeddingModel: string | null };

/**
 * Writes the direction of a vector for PostgreSQL: cosine distance knows no length, and at unit length
 * no element is too large or too small for the four bytes that it gets there.
 * @returns Undefined for a vector without a direction: all zeros, or with an element that is no number.
 */
export function toDirection(vector: readonly number[]): string | undefined {
  const largest = vector.reduce((most, element) => Math.max(most, Math.abs(element)), 0);
  if (largest === 0 || !Number.isFinite(largest)) return undefined;
  const scaled = vector.map((element) => element / largest);
  const length = Math.hypot(...scaled);
  return toVector(scaled.map((element) => element / length));
}

/**
 * Turns a query into a vector.
 * @param text Holds a word at least.
 * @throws ProblemError `model_unavailable` (503) when the model fails.
 */
export async function embedQuery(
  model: Embedder,
  text: string,
  signal: AbortSignal,
): Promise<QueryVector> {
  try {
    const { vectors, model: embeddingModel } = await model.embed([text], { signal });
    const vector = toDirection(vectors[0] ?? []);
    if (vector === undefined) throw new Error('The model gave an embedding without a direction');
    return { vector, embeddingModel };
  } catch (cause) {
    throw problem('model_unavailable', { cause, headers: { 'retry-after': '5' } });
  }
}
