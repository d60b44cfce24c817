import { ModelError } from './errors.ts';

/** Below it, single precision has ever fewer digits: IEEE 754, binary32. */
const SMALLEST_NORMAL = 2 ** -126;

/**
 * Checks vectors before anybody stores them: one that is not finite, zero or of another width would
 * corrupt every search that meets it. They are judged as pgvector computes distances: it stores numbers in
 * single precision, and adds up their squares in it. That there is one for each text, the SDK has checked.
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
  const squares = vector
    .map(Math.fround)
    .reduce((sum, number) => Math.fround(sum + number * number), 0);
  if (!Number.isFinite(squares)) return 'with a number that is not finite, or too large to square.';
  if (squares < SMALLEST_NORMAL) {
    return 'of zeros only, or of numbers too small to square, which has no direction.';
  }
  return undefined;
}
