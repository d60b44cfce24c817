/** Two listings that are likely the same property. */
export type Edge = readonly [number, number];

/**
 * The groups that pairs make: each listing's group is the smallest id that it is connected with, over
 * however many pairs. One that is in no pair has none.
 */
export function components(
  ids: Iterable<number>,
  edges: readonly Edge[],
): Map<number, number | null> {
  const parents = new Map<number, number>();

  function rootOf(id: number): number {
    let root = id;
    for (let above = parents.get(root); above !== undefined; above = parents.get(root))
      root = above;
    // The way is shortened, so that a long chain is walked once.
    for (let step = id; step !== root;) {
      const above = parents.get(step) ?? root;
      parents.set(step, root);
      step = above;
    }
    return root;
  }

  for (const [one, other] of edges) {
    const [low, high] = [rootOf(one), rootOf(other)].toSorted((a, b) => a - b);
    if (low !== undefined && high !== undefined && low !== high) parents.set(high, low);
  }
  const paired = new Set(edges.flat());
  return new Map([...ids].map((id) => [id, paired.has(id) ? rootOf(id) : null]));
}
