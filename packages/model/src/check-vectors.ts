import { ModelError } from './errors.ts';

/**
 * Checks vectors before anybody stores them: one that is not finite, zero or of another width would
 * corrupt every search that meets it. They are judged as they are stored, in single precision. That there is one for each text, the SDK has checked.
 *
 * @param vectors What the model gave.
 * @param expected The width that all must have, and the model's name for the error message.
 * @returns The same vectors.
 * @throws ModelError MODEL_INVALID_OUTPUT, naming MODEL_EMBEDDING and, for a wrong width,
 *   EMBEDDING_DIMENSIONS and both widths.
 */
export function checkVectors(
  vectors: number[][],
  expected: { dimensions: number; model: string },
): number[][] {
  for (const vector of vectors) {
    const problem = problemOf(vector, expected.dimensions);
    if (problem !== undefined) {
      throw new ModelError(
        'MODEL_INVALID_OUTPUT',
        `MODEL_EMBEDDING (${expected.model}) gave an embedding ${problem}`,
      );
    }
  }
  return vectors;
}

function problemOf(vector: number[], dimensions: number): string | undefined {
  if (vector.length !== dimensions) {
    return `of ${vector.length} numbers, but EMBEDDING_DIMENSIONS is ${dimensions}. Change one of them to fit the other.`;
  }
  const stored = vector.map(Math.fround);
  if (!stored.every(Number.isFinite)) return 'with a number that is not finite.';
  if (stored.every((number) => number === 0)) {
    return 'of zeros only, which has no direction.';
  }
  return undefined;
}
