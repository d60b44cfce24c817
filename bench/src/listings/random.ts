/** Pseudorandom number generator, deterministic for a given seed. */
export type Random = {
  /** Returns a number from 0 up to, but not including, 1. */
  next(): number;
  /** Returns a whole number from 0 up to, but not including, `end`. */
  below(end: number): number;
  /** Returns a whole number from `from` to `to`, both included. */
  between(from: number, to: number): number;
  /** Returns true with a probability of `share`. */
  chance(share: number): boolean;
  pick<Value>(values: readonly Value[]): Value;
  /** Returns a normally distributed number with mean 0 and standard deviation 1. */
  normal(): number;
  /**
   * Returns a rank below `count`, distributed like words in texts (Zipf): rank 9 is a seventh as frequent as rank 0.
   */
  rank(count: number): number;
};

/** Creates an independent generator for each index, so that any listing can be generated alone. */
export function createRandom(seed: number, index = 0): Random {
  const next = mulberry32(mixBits(seed ^ mixBits(index + 1)));
  const below = (end: number): number => Math.floor(next() * end);
  return {
    next,
    below,
    between: (from, to) => from + below(to - from + 1),
    chance: (share) => next() < share,
    // `below` returns a valid index, so the value exists.
    pick: <Value>(values: readonly Value[]) => values[below(values.length)] as Value,
    // Box–Muller transform. 1 - next() is never 0, so the logarithm is finite.
    normal: () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next()),
    rank: (count) => Math.floor((count + 1) ** next()) - 1,
  };
}

/** Creates a Mulberry32 generator, the 32-bit algorithm of Tommy Ettinger. */
function mulberry32(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Mixes the bits with Austin Appleby's 32-bit finalizer, which maps neighbouring numbers to unrelated seeds. */
function mixBits(number: number): number {
  let mixed = number | 0;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}
