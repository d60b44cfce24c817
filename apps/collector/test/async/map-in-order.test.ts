import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { mapInOrder } from '../../src/async/map.ts';

/** Work that ends when the test says so. */
function work(count: number) {
  const begun: number[] = [];
  const ends = Array.from({ length: count }, () => Promise.withResolvers<number>());
  const values = ends.map((_, index) => index);
  const map = (index: number) => {
    begun.push(index);
    return ends[index]?.promise ?? Promise.reject(new Error('no such work'));
  };
  return { begun, values, map, end: (index: number) => ends[index]?.resolve(index), ends };
}

test('what is ahead of a slow one is bounded, and comes in its order', async () => {
  const { begun, values, map, end } = work(10);
  const results = mapInOrder(values, 2, map);
  const first = results.next();
  await turn();
  assert.deepEqual(begun, [0, 1]);
  end(1);
  end(2);
  end(3);
  await turn();
  assert.deepEqual(begun, [0, 1, 2, 3], 'the first of all is waited for');
  end(0);
  assert.deepEqual(await first, { done: false, value: 0 });
  for (const index of values.slice(4)) end(index);
  assert.deepEqual(await Array.fromAsync(results), values.slice(1));
});

test('after a failure nothing new begins, and what has begun is waited for', async () => {
  const { begun, values, map, ends } = work(10);
  const results = mapInOrder(values, 2, map);
  let isOver = false;
  const first = results.next().finally(() => {
    isOver = true;
  });
  await turn();
  ends[0]?.reject(new Error('broken'));
  await turn();
  assert.equal(isOver, false);
  ends[1]?.resolve(1);
  await assert.rejects(first, /broken/);
  assert.deepEqual(begun, [0, 1]);
});

test('when nobody asks any more nothing new begins, and what has begun is waited for', async () => {
  const { begun, values, map, end } = work(10);
  const results = mapInOrder(values, 2, map);
  const first = results.next();
  await turn();
  end(0);
  await first;
  await turn();
  assert.deepEqual(begun, [0, 1, 2]);
  let isOver = false;
  const ended = results.return(0).finally(() => {
    isOver = true;
  });
  await turn();
  end(1);
  await turn();
  assert.equal(isOver, false);
  end(2);
  await ended;
  assert.deepEqual(begun, [0, 1, 2]);
});
