import assert from 'node:assert/strict';
import { test } from 'node:test';
import { oneAtATime } from '../../src/digests/one-at-a-time.ts';

/** Work whose times end as a test says: each in turn, well or with a failure. */
function scripted() {
  const ends: { end: () => void; fail: (error: Error) => void }[] = [];
  let atOnce = 0;
  const run = oneAtATime(async () => {
    atOnce += 1;
    assert.equal(atOnce, 1);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    ends.push({ end: resolve, fail: reject });
    await promise.finally(() => {
      atOnce -= 1;
    });
  });
  return { run, ends };
}

/** Lets everything go on that waits for nothing. */
const settle = () => new Promise(setImmediate);

test('what is asked for while work is being done is done once more, however often it is asked for', async () => {
  const { run, ends } = scripted();
  const first = run();
  const others = [run(), run()];
  assert.equal(ends.length, 1);
  ends[0]?.end();
  await first;
  await settle();
  assert.equal(ends.length, 2);
  // The second time has begun, and does not see what is asked for from now on.
  const late = run();
  ends[1]?.end();
  await Promise.all(others);
  await settle();
  ends[2]?.end();
  await late;
  assert.equal(ends.length, 3);
  assert.equal(run.current(), undefined);
});

test('a time that fails takes nothing along that was asked for meanwhile', async () => {
  const { run, ends } = scripted();
  const first = assert.rejects(run(), /away/);
  const second = run();
  ends[0]?.fail(new Error('away'));
  await first;
  await settle();
  assert.equal(ends.length, 2);
  ends[1]?.end();
  await second;
  assert.equal(run.current(), undefined);
});

test('who goes on at the end of one time does not begin another beside the next', async () => {
  const { run, ends } = scripted();
  const again = run().then(() => run());
  const second = run();
  ends[0]?.end();
  await settle();
  assert.equal(ends.length, 2);
  ends[1]?.end();
  await Promise.all([second, again]);
});

test('its end waits for what is to be done after what is being done', async () => {
  const { run, ends } = scripted();
  void run();
  void run();
  let isOver = false;
  const over = run.current()?.finally(() => {
    isOver = true;
  });
  ends[0]?.end();
  await settle();
  assert.equal(isOver, false);
  ends[1]?.end();
  await over;
});
