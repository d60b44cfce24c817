import { createRandom, type Random } from './random.ts';

/**
 * Generator of vectors that resemble embeddings: they cluster by topic and vary in few directions. A vector is a
 * topic's centre, shifted along the shared directions, plus noise in every element.
 */
export type VectorGenerator = {
  /** Returns a vector of whole numbers, near the other vectors of its topic. */
  next(random: Random): Int16Array;
};

const TOPICS = 256;
const DIRECTIONS = 24;
/** Standard deviation along each direction. The elements of a topic's centre have a standard deviation of 1. */
const SPREAD = 0.2;
const NOISE = 0.25;
/** Factor to apply before rounding. Three digits are precise enough for searches and short as text. */
const SCALE = 100;

/**
 * Returns a generator of vectors.
 * @param dimensions Number of elements of a vector.
 */
export function createVectorGenerator(dimensions: number): VectorGenerator {
  const random = createRandom(dimensions, DIRECTIONS);
  const normals = (count: number) =>
    Array.from({ length: count }, () =>
      Float32Array.from({ length: dimensions }, () => random.normal()),
    );
  const topics = normals(TOPICS);
  const directions = normals(DIRECTIONS);
  return {
    next(vectorRandom) {
      const vector = Float32Array.from(vectorRandom.pick(topics));
      for (const direction of directions) {
        const distance = SPREAD * vectorRandom.normal();
        for (let index = 0; index < dimensions; index += 1) {
          vector[index] = (vector[index] ?? 0) + distance * (direction[index] ?? 0);
        }
      }
      const rounded = new Int16Array(dimensions);
      for (let index = 0; index < dimensions; index += 1) {
        rounded[index] = Math.round(
          SCALE * ((vector[index] ?? 0) + NOISE * (vectorRandom.next() - 0.5)),
        );
      }
      return rounded;
    },
  };
}
