/** Numbers that look random and are the same for equal seeds. */
export type Random = {
  /** From 0 up to, but not including, 1. */
  next(): number;
  /** A whole number from 0 up to, but not including, `end`. */
  below(end: number): number;
  /** A whole number from `from` to `to`, both included. */
  between(from: number, to: number): number;
  /** Returns true with a probability of `share`. */
  chance(share: number): boolean;
  pick<Item>(items: readonly Item[]): Item;
  /** Normally distributed around 0, with a deviation of 1. */
  normal(): number;
  /**
   * A rank from 0 up to, but not including, `count`, distributed as words are in texts (Zipf): rank 9 comes
   * about a tenth as often as rank 0.
   */
  rank(count: number): number;
};

/**
 * A separate series for each place in a sequence, so that the millionth listing can be made without
 * those before it.
 */
export function createRandom(seed: number, nth = 0): Random {
  const next = mulberry32(scramble(seed ^ scramble(nth + 1)));
  const below = (end: number): number => Math.floor(next() * end);
  return {
    next,
    below,
    between: (from, to) => from + below(to - from + 1),
    chance: (share) => next() < share,
    // There is an item at each index below the length.
    pick: <Item>(items: readonly Item[]) => items[below(items.length)] as Item,
    // The method of Box and Muller; 1 - next() is never 0.
    normal: () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next()),
    rank: (count) => Math.floor((count + 1) ** next()) - 1,
  };
}

/** Tommy Ettinger's small generator of 32 bits. */
function mulberry32(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Austin Appleby's finalizer of 32 bits: neighbouring numbers become seeds that have nothing in common. */
function scramble(number: number): number {
  let mixed = number | 0;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}
