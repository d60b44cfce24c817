import { createRandom, type Random } from './random.ts';

/**
 * Generator of vectors that resemble embeddings: clustered by topic, and different in few directions. A
 * vector is the centre of a topic, moved along shared directions, with noise in every element.
 */
export type Vectors = {
  /** Returns a vector of whole numbers, near the other vectors of its topic. */
  of(random: Random): Int16Array;
};

const TOPICS = 256;
const DIRECTIONS = 24;
/** Deviation within a topic; the centres of topics have a deviation of 1. */
const SPREAD = 0.2;
const NOISE = 0.25;
/** Factor before rounding: three digits suffice for searches and are short as text. */
const SCALE = 100;

/**
 * Returns a generator of vectors.
 * @param dimensions Number of elements of a vector.
 */
export function createVectors(dimensions: number): Vectors {
  const random = createRandom(dimensions, DIRECTIONS);
  const normals = (count: number) =>
    Array.from({ length: count }, () =>
      Float32Array.from({ length: dimensions }, () => random.normal()),
    );
  const topics = normals(TOPICS);
  const directions = normals(DIRECTIONS);
  return {
    of(own) {
      const vector = Float32Array.from(own.pick(topics));
      for (const direction of directions) {
        const far = SPREAD * own.normal();
        for (let at = 0; at < dimensions; at += 1) {
          vector[at] = (vector[at] ?? 0) + far * (direction[at] ?? 0);
        }
      }
      const rounded = new Int16Array(dimensions);
      for (let at = 0; at < dimensions; at += 1) {
        rounded[at] = Math.round(SCALE * ((vector[at] ?? 0) + NOISE * (own.next() - 0.5)));
      }
      return rounded;
    },
  };
}
