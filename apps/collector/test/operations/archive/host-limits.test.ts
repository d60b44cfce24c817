import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHostLimits } from '../../../src/operations/archive/host-limits.ts';

const never = new AbortController().signal;

/** Work that ends when it is told to, with the number of pieces in progress. */
function countedWork() {
  const state = { now: 0, most: 0 };
  return {
    state,
    work: async () => {
      state.now += 1;
      state.most = Math.max(state.most, state.now);
      await new Promise(setImmediate);
      state.now -= 1;
    },
  };
}

test('one host gets so many at once, and all hosts together so many', async () => {
  const inTurn = createHostLimits({ parallel: 5, perHost: 2, pauseMs: 0 });
  for (const [hosts, most] of [
    [1, 2],
    [2, 4],
    [6, 5],
  ] as const) {
    const { state, work } = countedWork();
    await Promise.all(
      Array.from({ length: 60 }, (_, n) => inTurn(`http://h${n % hosts}.test/${n}`, never, work)),
    );
    assert.deepEqual(state, { now: 0, most }, `${hosts} hosts`);
  }
});

test('a slow host keeps no other waiting', async () => {
  const inTurn = createHostLimits({ parallel: 3, perHost: 1, pauseMs: 0 });
  const slow = Promise.withResolvers<void>();
  const waiting = Array.from({ length: 20 }, () =>
    inTurn('http://slow.test/', never, () => slow.promise),
  );
  const quick = countedWork();
  await Promise.all(
    Array.from({ length: 20 }, () => inTurn('http://quick.test/', never, quick.work)),
  );
  slow.resolve();
  await Promise.all(waiting);
});

test('a host is left alone between two pieces of work, but nobody waits after the last', async () => {
  const inTurn = createHostLimits({ parallel: 8, perHost: 1, pauseMs: 3_600_000 });
  const ended = new AbortController();
  await inTurn('http://a.test/1', ended.signal, () => Promise.resolve());
  const done: number[] = [];
  const two = [1, 2].map((n) =>
    inTurn('http://a.test/', ended.signal, () => Promise.resolve(done.push(n))),
  );
  await new Promise(setImmediate);
  await new Promise(setImmediate);
  assert.deepEqual(done, [1]);
  ended.abort();
  await Promise.all(two);
  assert.deepEqual(done, [1, 2]);
});

test('failed work fails for whoever asked, and its host goes on', async () => {
  const inTurn = createHostLimits({ parallel: 1, perHost: 1, pauseMs: 0 });
  await assert.rejects(
    inTurn('http://a.test/', never, () => Promise.reject(new Error('broken'))),
    /broken/,
  );
  assert.equal(await inTurn('http://a.test/', never, () => Promise.resolve(1)), 1);
});
