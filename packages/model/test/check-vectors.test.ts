import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkVectors } from '../src/check-vectors.ts';

const EXPECTED = { dimensions: 2, model: 'embeddinggemma' };

test('finite vectors of the right width pass as they are', () => {
  const vectors = [
    [1, 0],
    [-0.5, 1e-300],
    [1e-18, 0],
    [1e19, 0],
  ];
  assert.equal(checkVectors(vectors, EXPECTED), vectors);
});

const bad: [vector: number[], said: RegExp][] = [
  [[1, 2, 3], /\(embeddinggemma\) gave an embedding of 3 numbers, but EMBEDDING_DIMENSIONS is 2/],
  [[], /of 0 numbers/],
  [[Number.NaN, 1], /not finite/],
  [[1, Number.NEGATIVE_INFINITY], /not finite/],
  [[0, -0], /zeros only/],
  // As pgvector stores them, in single precision.
  [[1e39, 1], /not finite/],
  [[1e-46, -1e-300], /zeros only/],
  // As it computes distances: it finds the first at 1 from whatever there is, itself included, the others at 0 or NaN.
  [[1e30, 0], /too large/],
  [[1e-30, 0], /too small/],
  [[3e-23, 0], /too small/],
];
for (const [vector, said] of bad) {
  test(`[${vector.join(', ')}] is refused wherever it stands`, () => {
    for (const vectors of [
      [[1, 1], vector],
      [vector, [1, 1]],
    ]) {
      assert.throws(() => checkVectors(vectors, EXPECTED), {
        code: 'MODEL_INVALID_OUTPUT',
        message: said,
      });
    }
  });
}
