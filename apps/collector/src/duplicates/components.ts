/** Two listings that are likely the same property. */
export type Edge = readonly [number, number];

/**
 * How many listings a group has at most. What is offered a thousand times over, by the same words with the
 * same facts, would make each look as long as the group, and a folded search hide them all behind one.
 */
export const MAX_GROUP = 500;

/**
 * The groups that pairs make of listings, none of them larger than `MAX_GROUP`: where more hang together,
 * those stay together who were in one group before.
 * @param members Each with the group that it is in.
 */
export function groupsOf(
  members: ReadonlyMap<number, number | null>,
  edges: readonly Edge[],
): Map<number, number | null> {
  const groups = components(members.keys(), edges);
  const sizes = Map.groupBy(groups.values(), (group) => group);
  const isTooLarge = (id: number) => {
    const group = groups.get(id) ?? null;
    return group !== null && (sizes.get(group)?.length ?? 0) > MAX_GROUP;
  };
  const large = [...members.keys()].filter(isTooLarge);
  if (large.length === 0) return groups;
  const kept = edges.filter(([one, other]) => {
    const group = members.get(one) ?? null;
    return group !== null && group === members.get(other);
  });
  const divided = components(large, kept);
  return new Map(
    [...groups].map(([id, group]) => [id, divided.has(id) ? (divided.get(id) ?? null) : group]),
  );
}

/**
 * The groups that pairs make without a bound: each listing's group is the smallest id that it is connected
 * with, over however many pairs. One that is in no pair has none.
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
