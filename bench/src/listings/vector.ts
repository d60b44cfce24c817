import { createRandom, type Random } from './random.ts';

/**
 * Vectors with the shape that embeddings of texts have: most of what tells two listings apart lies in few
 * directions, and texts about the same are near one another. Each is the middle of a topic, moved along
 * some directions that all share, with a little noise in every element.
 */
export type Vectors = {
  /** Near those of other listings of its topic. Whole numbers: cosine distance knows no length. */
  of(random: Random): Int16Array;
};

const TOPICS = 256;
const DIRECTIONS = 24;
/** Distance of listings within a topic; topics are 1 apart in each element. */
const SPREAD = 0.2;
const NOISE = 0.25;
/** Whole numbers of three digits say as much of an element as a search needs, and are short as text. */
const SCALE = 100;

/** @param dimensions How many elements a vector has. */
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
