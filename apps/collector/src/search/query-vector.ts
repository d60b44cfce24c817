import { toVector } from '@oselya/db';
import { type ModelClient, ModelError } from '@oselya/model';
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
 * @throws ProblemError `model_unavailable` (503) where the same search may succeed later; `model_failed` (502)
 *   where it will not: the model does not take this text, or does not work as it is configured.
 *   Specification 001, Errors.
 */
export async function embedQuery(
  model: Embedder,
  text: string,
  signal: AbortSignal,
): Promise<QueryVector> {
  const { vectors, model: embeddingModel } = await model
    .embed([text], { signal })
    .catch((cause: unknown) => {
      if (!(cause instanceof ModelError)) throw cause;
      throw mayPass(cause)
        ? problem('model_unavailable', { cause, headers: { 'retry-after': '5' } })
        : problem('model_failed', { cause });
    });
  const vector = toDirection(vectors[0] ?? []);
  if (vector !== undefined) return { vector, embeddingModel };
  const cause = new Error('The model gave an embedding without a direction');
  throw problem('model_failed', { cause });
}

/** Whether somebody who asks again may be answered: a process that stops leaves others. */
function mayPass({ retryable, code }: ModelError): boolean {
  return retryable || code === 'MODEL_CLOSED' || code === 'MODEL_ABORTED';
}
