import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { connect } from '@oselya/db';
import fc from 'fast-check';
import { createGroupCommit } from '../../src/async/group-commit.ts';

/** Groups as they are asked to be written, each until it is answered. */
function controlledWrites() {
  const groups: { items: readonly string[]; answer: PromiseWithResolvers<string[]> }[] = [];
  return {
    groups,
    write: (items: readonly string[]) => {
      const answer = Promise.withResolvers<string[]>();
      groups.push({ items, answer });
      return answer.promise;
    },
  };
}

/** So many turns of the event loop that whatever is going to happen by itself has happened. */
async function settle(): Promise<void> {
  for (let turns = 0; turns < 10; turns += 1) await nextTurn();
}

test('what comes while groups are on their way is one group, in its order', async () => {
  const { groups, write } = controlledWrites();
  const commit = createGroupCommit({ write, maxItems: 100, maxInFlight: 2 });
  const first = commit('a');
  await settle();
  const second = commit('b');
  await settle();
  const others = ['c', 'd', 'e', 'f'].map((item) => commit(item));
  await settle();
  assert.deepEqual(
    groups.map(({ items }) => items),
    [['a'], ['b']],
    'no more than two at once',
  );
  groups[1]?.answer.resolve(['B']);
  assert.equal(await second, 'B');
  await settle();
  assert.deepEqual(groups[2]?.items, ['c', 'd', 'e', 'f']);
  groups[2].answer.resolve(['C', 'D', 'E', 'F']);
  assert.deepEqual(await Promise.all(others), ['C', 'D', 'E', 'F']);
  groups[0]?.answer.resolve(['A']);
  assert.equal(await first, 'A');
});

test('a group has no more items and bytes than it may have', async () => {
  const groups: string[][] = [];
  const commit = createGroupCommit<string, number>({
    async write(items) {
      groups.push([...items]);
      return items.map((item) => item.length);
    },
    maxItems: 4,
    maxBytes: 10,
    bytesOf: (item) => item.length,
    maxInFlight: 1,
  });
  const items = ['aaa', 'bbb', 'ccc', 'ddd', 'e'.repeat(50), 'f', 'g'];
  assert.deepEqual(await Promise.all(items.map((item) => commit(item))), [3, 3, 3, 3, 50, 1, 1]);
  assert.deepEqual(groups, [['aaa', 'bbb', 'ccc'], ['ddd'], ['e'.repeat(50)], ['f', 'g']]);
});

test('an item that fails fails alone', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.boolean(), { maxLength: 30 }), async (goodness) => {
      const written: number[] = [];
      const commit = createGroupCommit<number, number>({
        async write(items) {
          if (items.some((item) => goodness[item] === false)) throw new Error('a bad item');
          written.push(...items);
          return items;
        },
        maxItems: 8,
        maxInFlight: 2,
      });
      const results = await Promise.allSettled(goodness.map((_, item) => commit(item)));
      assert.deepEqual(
        results.map((result) => result.status === 'fulfilled' && result.value),
        goodness.map((good, item) => good && item),
      );
      const good = goodness.flatMap((isGood, item) => (isGood ? [item] : []));
      assert.deepEqual(
        written.toSorted((a, b) => a - b),
        good,
        'each is written once',
      );
    }),
  );
});

test('an outage is told to all of a group, and not met once more for each', async () => {
  const closed = await connect({});
  await closed.close();
  let tries = 0;
  const commit = createGroupCommit<number, number>({
    async write() {
      tries += 1;
      await closed.db.connection().execute(() => Promise.resolve());
      return [];
    },
    maxItems: 100,
    maxInFlight: 1,
  });
  const results = await Promise.allSettled([1, 2, 3].map((item) => commit(item)));
  assert.ok(results.every(({ status }) => status === 'rejected'));
  assert.equal(tries, 1);
});

test('an error for one item among the results is its own', async () => {
  const commit = createGroupCommit<number, number>({
    write: async (items) => items.map((item) => (item === 2 ? new Error('two') : item)),
    maxItems: 100,
    maxInFlight: 1,
  });
  const [one, two, three] = await Promise.allSettled([1, 2, 3].map((item) => commit(item)));
  assert.deepEqual([one?.status, three?.status], ['fulfilled', 'fulfilled']);
  assert.match(String(two?.status === 'rejected' && two.reason), /two/);
});
