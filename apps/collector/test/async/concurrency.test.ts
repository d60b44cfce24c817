import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as tick } from 'node:timers/promises';
import { createAdmissionLimit, mapInOrder, mapParallel } from '../../src/async/concurrency.ts';

/** Work that ends when the test says so. */
function heldWork(count: number) {
  const begun: number[] = [];
  const ends = Array.from({ length: count }, () => Promise.withResolvers<number>());
  const values = ends.map((_, index) => index);
  const map = (index: number) => {
    begun.push(index);
    return ends[index]?.promise ?? Promise.reject(new Error('no such work'));
  };
  return { begun, values, map, ends, end: (index: number) => ends[index]?.resolve(index) };
}

test('mapParallel bounds the work in progress and keeps the order of the results', async () => {
  let inProgress = 0;
  let most = 0;
  const doubled = await mapParallel([5, 1, 4, 2, 3, 0, 6], 3, async (ticks) => {
    inProgress += 1;
    most = Math.max(most, inProgress);
    for (let n = 0; n < ticks; n += 1) await tick();
    inProgress -= 1;
    return ticks * 2;
  });
  assert.deepEqual(doubled, [10, 2, 8, 4, 6, 0, 12]);
  assert.equal(most, 3);
});

test('mapParallel begins nothing after a failure and waits for the work in progress', async () => {
  const begun: number[] = [];
  const ended: number[] = [];
  const failing = mapParallel([0, 1, 2, 3, 4], 2, async (value) => {
    begun.push(value);
    if (value === 0) throw new Error('no');
    for (let n = 0; n < 5; n += 1) await tick();
    ended.push(value);
  });
  await assert.rejects(failing, /no/);
  assert.deepEqual([begun, ended], [[0, 1], [1]]);
});

test('mapInOrder bounds the work ahead of a slow value and yields in order', async () => {
  const { begun, values, map, end } = heldWork(10);
  const results = mapInOrder(values, 2, map);
  const first = results.next();
  await tick();
  assert.deepEqual(begun, [0, 1]);
  for (const index of [1, 2, 3]) end(index);
  await tick();
  assert.deepEqual(begun, [0, 1, 2, 3]);
  end(0);
  assert.deepEqual(await first, { done: false, value: 0 });
  for (const index of values.slice(4)) end(index);
  assert.deepEqual(await Array.fromAsync(results), values.slice(1));
});

for (const [title, stop] of [
  ['a failure', 'fail'],
  ['the end of the iteration', 'return'],
] as const) {
  test(`mapInOrder begins nothing after ${title} and waits for the work in progress`, async () => {
    const { begun, values, map, ends, end } = heldWork(10);
    const results = mapInOrder(values, 2, map);
    const first = results.next();
    await tick();
    if (stop === 'fail') ends[0]?.reject(new Error('broken'));
    else end(0);
    if (stop === 'return') await first;
    await tick();
    const before = [...begun];
    let isOver = false;
    const settled = (stop === 'fail' ? assert.rejects(first, /broken/) : results.return(0)).finally(
      () => (isOver = true),
    );
    await tick();
    assert.equal(isOver, false);
    for (const index of before) end(index);
    await settled;
    assert.deepEqual(begun, before);
  });
}

const limited = (maxItems: number, maxBytes: number) =>
  createAdmissionLimit({ maxItems, maxBytes, reject: () => new Error('full') });

for (const [title, maxItems, size] of [
  ['bytes', 100, 5],
  ['items', 2, 0],
] as const) {
  test(`Work beyond the limit of ${title} is rejected before it begins, until other work ends`, async () => {
    const run = limited(maxItems, 10);
    const held = Promise.withResolvers<string>();
    const begun = [run(size, () => held.promise), run(size, () => held.promise)];
    await assert.rejects(
      run(1, () => assert.fail('it began')),
      /full/,
    );
    held.resolve('done');
    assert.deepEqual(await Promise.all(begun), ['done', 'done']);
    assert.equal(await run(1, async () => 'more'), 'more');
  });
}

test('Failed work leaves room for other work, and an item above the limit runs alone', async () => {
  const run = limited(2, 10);
  await assert.rejects(
    run(10, () => Promise.reject(new Error('broken'))),
    /broken/,
  );
  const held = Promise.withResolvers<string>();
  const large = run(11, () => held.promise);
  await assert.rejects(
    run(1, async () => 'small'),
    /full/,
  );
  held.resolve('large');
  assert.equal(await large, 'large');
});
