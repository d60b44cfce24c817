import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { components, type Edge } from '../../src/duplicates/groups.ts';

const IDS = Array.from({ length: 12 }, (_, nth) => nth + 1);
const id = fc.constantFrom(...IDS);
const edges = fc.array(
  fc.tuple(id, id).filter(([one, other]) => one !== other),
  { maxLength: 20 },
);

/** The same by walking: slow, and plainly right. */
function reachable(from: number, all: readonly Edge[]): Set<number> {
  const reached = new Set([from]);
  for (let size = 0; size !== reached.size;) {
    size = reached.size;
    for (const edge of all) {
      if (edge.some((end) => reached.has(end))) edge.forEach((end) => reached.add(end));
    }
  }
  return reached;
}

test('a group is named by the smallest id that is reached, whatever the order of the pairs', () => {
  fc.assert(
    fc.property(edges, (all) => {
      const groups = components(IDS, all);
      for (const one of IDS) {
        const reached = reachable(one, all);
        assert.equal(groups.get(one), reached.size === 1 ? null : Math.min(...reached));
      }
      const swapped = all.map(([one, other]): Edge => [other, one]).toReversed();
      assert.deepEqual(components(IDS, swapped), groups);
    }),
  );
});

test('a long chain is one group', () => {
  const chain = Array.from({ length: 20_000 }, (_, nth): Edge => [nth + 1, nth + 2]);
  const groups = components(new Set(chain.flat()), chain.toReversed());
  assert.deepEqual([...new Set(groups.values())], [1]);
});
