import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { mapParallel } from '../../src/async/map.ts';

test('no more than so many are in progress, and the results keep their order', async () => {
  let inProgress = 0;
  let most = 0;
  const doubled = await mapParallel([5, 1, 4, 2, 3, 0, 6], 3, async (turns) => {
    inProgress += 1;
    most = Math.max(most, inProgress);
    for (let turn = 0; turn < turns; turn += 1) await setImmediate();
    inProgress -= 1;
    return turns * 2;
  });
  assert.deepEqual(doubled, [10, 2, 8, 4, 6, 0, 12]);
  assert.equal(most, 3);
  assert.deepEqual(await mapParallel([], 3, async () => 1), []);
});

test('after a failure nothing new begins, and what was in progress is waited for', async () => {
  const begun: number[] = [];
  const ended: number[] = [];
  const failing = mapParallel([0, 1, 2, 3, 4], 2, async (value) => {
    begun.push(value);
    if (value === 0) throw new Error('no');
    for (let turn = 0; turn < 5; turn += 1) await setImmediate();
    ended.push(value);
  });
  await assert.rejects(failing, /no/);
  assert.deepEqual([begun, ended], [[0, 1], [1]]);
});
