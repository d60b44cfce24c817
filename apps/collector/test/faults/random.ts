/** Numbers from 0 up to, but not including, 1; equal seeds give equal ones. A linear congruence does. */
export function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
