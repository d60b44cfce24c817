import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Job } from '../../src/queue/job.ts';
import { createSlots } from '../../src/queue/slots.ts';

const job = (rawId: number): Job => ({
  rawId,
  attempt: 1,
  sourceSlug: 'doshka',
  externalId: String(rawId),
  contentHash: '',
});

test('a job whose end is being written leaves its slot to another', async () => {
  let rings = 0;
  const slots = createSlots(2, () => (rings += 1));
  const ends = [1, 2, 3, 4].map(() => Promise.withResolvers<void>());
  const leaves: (() => void)[] = [];
  const run = (id: number) =>
    slots.run(job(id), (_, leave) => {
      leaves.push(leave);
      return ends[id - 1]?.promise ?? Promise.resolve();
    });
  run(1);
  run(2);
  assert.equal(slots.free, 0);
  leaves[0]?.();
  leaves[0]?.();
  assert.deepEqual([slots.free, rings], [1, 1], 'however often it says so');
  run(3);
  leaves[1]?.();
  run(4);
  leaves[2]?.();
  leaves[3]?.();
  assert.equal(slots.free, 0, 'nothing is worked on, but the ends of four are being written');
  assert.equal(slots.all().length, 4);
  ends[0]?.resolve();
  ends[1]?.resolve();
  await Promise.all(
    slots
      .all()
      .slice(0, 2)
      .map(({ done }) => done),
  );
  assert.equal(slots.free, 2);
  for (const { resolve } of ends) resolve();
  assert.ok(await slots.empty(1000));
  assert.equal(slots.free, 2);
});

test('a job that ends without a word has left its slot too', async () => {
  const slots = createSlots(1, () => undefined);
  slots.run(job(1), () => Promise.resolve());
  assert.ok(await slots.empty(1000));
  assert.equal(slots.free, 1);
});

test('jobs wait for a slot in their order, and can be taken out', async () => {
  const slots = createSlots(1, () => undefined, { ahead: 10 });
  const begun: number[] = [];
  const ends = new Map([1, 2, 3, 4].map((id) => [id, Promise.withResolvers<void>()]));
  for (const [id, { promise }] of ends) {
    slots.run(job(id), async (_, leave) => {
      begun.push(id);
      await promise;
      if (id === 1) leave();
    });
  }
  assert.equal(slots.free, 0);
  ends.get(1)?.resolve();
  await slots.all()[0]?.done;
  assert.deepEqual([begun, slots.processed], [[1, 2], 1]);
  assert.deepEqual(slots.takeWaiting(60_000), [], 'none has waited for so long');
  assert.deepEqual(
    slots.takeWaiting().map(({ rawId }) => rawId),
    [3, 4],
  );
  ends.get(2)?.resolve();
  assert.ok(await slots.empty(1000));
  assert.deepEqual([begun, slots.free], [[1, 2], 1]);
  assert.equal(slots.processed, 1, 'the second went back');
});

test('beyond the slots, while none is free, at most a quarter of their number is begun', async () => {
  const slots = createSlots(8, () => undefined, { ahead: 10 });
  const ends: (() => void)[] = [];
  const run = (isExtra = false) =>
    slots.run(job(ends.length), () => new Promise<void>((resolve) => ends.push(resolve)), {
      isExtra,
    });
  for (let nth = 0; nth < 7; nth += 1) run();
  assert.equal(slots.extra, 0, 'one is free');
  run();
  assert.deepEqual([slots.free, slots.extra], [0, 2]);
  run();
  assert.equal(ends.length, 8, 'it waits for a slot');
  run(true);
  assert.deepEqual([ends.length, slots.free, slots.extra], [9, -1, 1]);
  run(true);
  assert.deepEqual([ends.length, slots.extra], [10, 0]);
  const [first, second, third] = slots.all();
  for (const nth of [0, 1]) ends[nth]?.();
  await Promise.all([first?.done, second?.done]);
  assert.deepEqual([ends.length, slots.free], [10, 0], 'who is beyond takes what is left');
  ends[2]?.();
  await third?.done;
  assert.equal(ends.length, 11);
  for (const end of ends) end();
  assert.ok(await slots.empty(1000));
  assert.deepEqual([slots.free, slots.isEmpty], [8, true]);
});

/** How many may be begun beyond so many slots when all are taken. */
function beyond(count: number): number {
  const slots = createSlots(count, () => undefined);
  for (let nth = 0; nth < count; nth += 1) {
    slots.run(job(nth), () => new Promise<void>(() => undefined));
  }
  return slots.extra;
}

test('a quarter is rounded down, and one at least', () => {
  assert.deepEqual([1, 2, 4, 7, 8, 24, 64].map(beyond), [1, 1, 1, 1, 2, 6, 16]);
});
