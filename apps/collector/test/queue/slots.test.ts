import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Job } from '../../src/queue/job.ts';
import { createSlots } from '../../src/queue/slots.ts';
import { until } from '../support/until.ts';

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

test('of one source no more are worked on than may be, and those of others go ahead', async () => {
  const most = { ofOne: 2 };
  const slots = createSlots(3, () => undefined, { ahead: 10, mostOfOne: () => most.ofOne });
  const begun: number[] = [];
  const ends = new Map<number, () => void>();
  const run = (rawId: number, sourceSlug: string) =>
    slots.run({ ...job(rawId), sourceSlug }, async () => {
      begun.push(rawId);
      await new Promise<void>((resolve) => ends.set(rawId, resolve));
    });
  for (const rawId of [1, 2, 3, 4]) run(rawId, 'large');
  assert.deepEqual([begun, slots.free, slots.hasItsShare('large')], [[1, 2], 1, true]);
  run(5, 'small');
  assert.deepEqual([begun, slots.free, slots.hasItsShare('small')], [[1, 2, 5], 0, false]);
  assert.deepEqual(
    [...slots.workingOf()],
    [
      ['large', 2],
      ['small', 1],
    ],
  );
  const [first] = slots.all();
  ends.get(1)?.();
  await first?.done;
  assert.deepEqual(begun, [1, 2, 5, 3]);
  most.ofOne = Infinity;
  ends.get(5)?.();
  await until('the last', () => begun.length === 5);
  for (const end of ends.values()) end();
  assert.ok(await slots.empty(1000));
  assert.ok(slots.isEmpty && slots.workingOf().size === 0);
});
