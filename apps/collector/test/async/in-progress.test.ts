import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limitInProgress } from '../../src/async/in-progress.ts';

function limited(maxItems: number, maxBytes: number) {
  return limitInProgress({ maxItems, maxBytes, refuse: () => new Error('full') });
}

/** Work that ends when the test says so. */
function held() {
  const { promise, resolve } = Promise.withResolvers<string>();
  return { work: () => promise, end: () => resolve('done') };
}

test('past so many bytes more is refused at once and not begun, until some has ended', async () => {
  const inProgress = limited(100, 10);
  const first = held();
  const second = held();
  const begun = [inProgress(6, first.work), inProgress(4, second.work)];
  let isBegun = false;
  const more = () =>
    inProgress(1, async () => {
      isBegun = true;
      return 'more';
    });
  await assert.rejects(more(), /full/);
  assert.equal(isBegun, false);
  second.end();
  assert.equal(await begun[1], 'done');
  assert.equal(await more(), 'more');
  first.end();
  assert.equal(await begun[0], 'done');
});

test('past so many items too, however small', async () => {
  const inProgress = limited(2, 10);
  const waiting = [held(), held()];
  const begun = waiting.map(({ work }) => inProgress(0, work));
  await assert.rejects(
    inProgress(0, () => Promise.resolve('more')),
    /full/,
  );
  for (const { end } of waiting) end();
  assert.deepEqual(await Promise.all(begun), ['done', 'done']);
});

test('what fails gives its place back, and its error', async () => {
  const inProgress = limited(1, 10);
  await assert.rejects(
    inProgress(10, () => Promise.reject(new Error('broken'))),
    /broken/,
  );
  assert.equal(await inProgress(10, () => Promise.resolve('next')), 'next');
});

test('what is larger than all of it is let in alone', async () => {
  const inProgress = limited(2, 10);
  assert.equal(await inProgress(11, () => Promise.resolve('large')), 'large');
  const { work, end } = held();
  const first = inProgress(1, work);
  await assert.rejects(
    inProgress(11, () => Promise.resolve('large')),
    /full/,
  );
  end();
  await first;
});
