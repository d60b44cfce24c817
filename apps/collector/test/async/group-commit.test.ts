import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as tick } from 'node:timers/promises';
import { outage } from '@oselya/testing/database';
import fc from 'fast-check';
import { createGroupCommit } from '../../src/async/group-commit.ts';

/** Writes that wait for the test's answer. */
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

/** Lets pending callbacks run. */
async function settle(): Promise<void> {
  for (let ticks = 0; ticks < 10; ticks += 1) await tick();
}

test('Items that arrive while groups are in flight form one group, in order', async () => {
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

test('A group is bounded in items and bytes', async () => {
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

test('A bad item fails alone', async () => {
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

test('An outage fails a group without writing its items one by one', async () => {
  let tries = 0;
  const commit = createGroupCommit<number, number>({
    async write() {
      tries += 1;
      throw outage();
    },
    maxItems: 100,
    maxInFlight: 1,
  });
  const results = await Promise.allSettled([1, 2, 3].map((item) => commit(item)));
  assert.ok(results.every(({ status }) => status === 'rejected'));
  assert.equal(tries, 1);
});

test('An error among the results fails its item alone', async () => {
  const commit = createGroupCommit<number, number>({
    write: async (items) => items.map((item) => (item === 2 ? new Error('two') : item)),
    maxItems: 100,
    maxInFlight: 1,
  });
  const [one, two, three] = await Promise.allSettled([1, 2, 3].map((item) => commit(item)));
  assert.deepEqual([one?.status, three?.status], ['fulfilled', 'fulfilled']);
  assert.match(String(two?.status === 'rejected' && two.reason), /two/);
});
