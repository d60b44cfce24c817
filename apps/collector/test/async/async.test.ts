import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { setImmediate as tick } from 'node:timers/promises';
import { until } from '@oselya/testing';
import { createOutageError } from '@oselya/testing/database';
import fc from 'fast-check';
import { createAdmissionLimit, mapInOrder } from '../../src/async/concurrency.ts';
import { createGroupCommit } from '../../src/async/group-commit.ts';
import { rejectOnAbort, repeat } from '../../src/async/wait.ts';
import { createGaugeCollector } from '../../src/metrics.ts';

/** Creates a `map` function whose calls run until the test ends them. */
function createHeldWork(count: number) {
  const startedItems: number[] = [];
  const ends = Array.from({ length: count }, () => Promise.withResolvers<number>());
  const values = ends.map((_, index) => index);
  const map = (index: number) => {
    startedItems.push(index);
    return ends[index]?.promise ?? Promise.reject(new Error('no such work'));
  };
  return { startedItems, values, map, ends, end: (index: number) => ends[index]?.resolve(index) };
}

test('mapInOrder bounds the work ahead of a slow value and yields in order', async () => {
  const { startedItems, values, map, end } = createHeldWork(10);
  const results = mapInOrder(values, 2, map);
  const firstPromise = results.next();
  await tick();
  assert.deepEqual(startedItems, [0, 1]);
  for (const index of [1, 2, 3]) end(index);
  await tick();
  assert.deepEqual(startedItems, [0, 1, 2, 3]);
  end(0);
  assert.deepEqual(await firstPromise, { done: false, value: 0 });
  for (const index of values.slice(4)) end(index);
  assert.deepEqual(await Array.fromAsync(results), values.slice(1));
});

for (const stop of ['a failure', 'the end of the iteration']) {
  test(`mapInOrder begins nothing after ${stop} and waits for the work in progress`, async () => {
    const { startedItems, values, map, ends, end } = createHeldWork(10);
    const results = mapInOrder(values, 2, map);
    const firstPromise = results.next();
    await tick();
    if (stop === 'a failure') ends[0]?.reject(new Error('broken'));
    else end(0);
    if (stop !== 'a failure') await firstPromise;
    await tick();
    const startedBefore = [...startedItems];
    let isOver = false;
    const stopResult =
      stop === 'a failure' ? assert.rejects(firstPromise, /broken/) : results.return(0);
    const settlement = Promise.resolve(stopResult).finally(() => (isOver = true));
    await tick();
    assert.equal(isOver, false);
    for (const index of startedBefore) end(index);
    await settlement;
    assert.deepEqual(startedItems, startedBefore);
  });
}

test('mapInOrder begins nothing after a failure while its consumer handles a result', async () => {
  const { startedItems, values, map, ends, end } = createHeldWork(3);
  const results = mapInOrder(values, 2, map, 2);
  const firstPromise = results.next();
  end(0);
  assert.deepEqual(await firstPromise, { done: false, value: 0 });
  ends[1]?.reject(new Error('broken'));
  end(2);
  await tick();
  await assert.rejects(results.next(), /broken/);
  assert.deepEqual(startedItems, [0, 1]);
});

test('Failed work leaves room for other work, and an item above the limit runs alone', async () => {
  const reject = () => new Error('full');
  const run = createAdmissionLimit({ maxItems: 2, maxBytes: 10, reject });
  const failingRun = run(10, () => Promise.reject(new Error('broken')));
  await assert.rejects(failingRun, /broken/);
  const gate = Promise.withResolvers<string>();
  const largeRun = run(11, () => gate.promise);
  await assert.rejects(
    run(1, async () => 'small'),
    /full/,
  );
  gate.resolve('large');
  assert.equal(await largeRun, 'large');
});

/** Lets pending callbacks run. */
async function settle(): Promise<void> {
  for (let ticks = 0; ticks < 10; ticks += 1) await tick();
}

test('Items that arrive while groups are in flight form one group, in order', async () => {
  const groups: { items: readonly string[]; answer: PromiseWithResolvers<string[]> }[] = [];
  const commit = createGroupCommit<string, string>({
    write(items) {
      const answer = Promise.withResolvers<string[]>();
      groups.push({ items, answer });
      return answer.promise;
    },
    maxItems: 100,
    maxInFlight: 2,
  });
  const resultPromises: Promise<string>[] = [];
  for (const items of ['a', 'b', 'cdef']) {
    resultPromises.push(...items.split('').map((item) => commit(item)));
    await settle();
  }
  const listGroups = () => groups.map(({ items }) => items.join(''));
  assert.deepEqual(listGroups(), ['a', 'b'], 'no more than two at once');
  groups[1]?.answer.resolve(['B']);
  await settle();
  assert.deepEqual(listGroups(), ['a', 'b', 'cdef']);
  groups[2]?.answer.resolve(['C', 'D', 'E', 'F']);
  groups[0]?.answer.resolve(['A']);
  assert.deepEqual(await Promise.all(resultPromises), ['A', 'B', 'C', 'D', 'E', 'F']);
});

test('A group that started lately holds back a small one', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const groups: { items: readonly string[]; answer: PromiseWithResolvers<readonly string[]> }[] =
    [];
  const commit = createGroupCommit<string, string>({
    write(items) {
      const answer = Promise.withResolvers<readonly string[]>();
      groups.push({ items, answer });
      return answer.promise;
    },
    minItems: 3,
    maxItems: 100,
    maxInFlight: 2,
  });
  const listGroups = () => groups.map(({ items }) => items.join(''));
  const resultPromises: Promise<string>[] = [];
  const send = async (items: string) => {
    resultPromises.push(...items.split('').map((item) => commit(item)));
    await settle();
    return listGroups();
  };
  assert.deepEqual(await send('a'), ['a'], 'the first item does not wait');
  assert.deepEqual(await send('bc'), ['a']);
  assert.deepEqual(await send('d'), ['a', 'bcd']);
  assert.deepEqual(await send('e'), ['a', 'bcd']);
  for (const { items, answer } of groups) answer.resolve(items);
  await settle();
  assert.deepEqual(await send('f'), ['a', 'bcd', 'e'], 'the end of a group releases the next one');
  context.mock.timers.tick(20);
  await settle();
  assert.deepEqual(listGroups(), ['a', 'bcd', 'e', 'f'], 'a slow group does not block others');
  for (const { items, answer } of groups) answer.resolve(items);
  assert.deepEqual(await Promise.all(resultPromises), ['a', 'b', 'c', 'd', 'e', 'f']);
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
    getBytes: (item) => item.length,
    maxInFlight: 1,
  });
  const items = ['aaa', 'bbb', 'ccc', 'ddd', 'e'.repeat(50), 'f', 'g'];
  assert.deepEqual(await Promise.all(items.map((item) => commit(item))), [3, 3, 3, 3, 50, 1, 1]);
  assert.deepEqual(groups, [['aaa', 'bbb', 'ccc'], ['ddd'], ['e'.repeat(50)], ['f', 'g']]);
});

test('An invalid item fails alone, and every other item is written once', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.boolean(), { maxLength: 30 }), async (validity) => {
      const writtenItems: number[] = [];
      const commit = createGroupCommit<number, number>({
        async write(items) {
          if (items.some((item) => validity[item] === false)) throw new Error('an invalid item');
          writtenItems.push(...items);
          return items;
        },
        maxItems: 8,
        maxInFlight: 2,
      });
      const results = await Promise.allSettled(validity.map((_, item) => commit(item)));
      assert.deepEqual(
        results.map((result) => result.status === 'fulfilled' && result.value),
        validity.map((isValid, item) => isValid && item),
      );
      const validItems = validity.flatMap((isValid, item) => (isValid ? [item] : []));
      assert.deepEqual(
        writtenItems.toSorted((a, b) => a - b),
        validItems,
      );
    }),
  );
});

test('An outage fails a group without writing its items one by one', async () => {
  let writes = 0;
  const commit = createGroupCommit<number, number>({
    async write() {
      writes += 1;
      throw createOutageError();
    },
    maxItems: 100,
    maxInFlight: 1,
  });
  const results = await Promise.allSettled([1, 2, 3].map((item) => commit(item)));
  assert.ok(results.every(({ status }) => status === 'rejected'));
  assert.equal(writes, 1);
});

const HOUR_MS = 3_600_000;

for (const [title, intervalMs, retryMs] of [
  ['Failed work is repeated sooner, and then at its interval', HOUR_MS, 1],
  ['The interval bounds the wait after a failure', 1, HOUR_MS],
] as const) {
  test(title, async () => {
    const stopController = new AbortController();
    const errors: string[] = [];
    let runs = 0;
    const work = async () => {
      runs += 1;
      if (runs < 3) throw new Error(`run ${runs}`);
    };
    const onError = (error: unknown) => void errors.push(String(error));
    const repetition = repeat(intervalMs, work, {
      signal: stopController.signal,
      retryMs,
      onError,
    });
    await until('a success', () => runs >= 3);
    stopController.abort();
    await repetition;
    assert.deepEqual(errors, ['Error: run 1', 'Error: run 2']);
  });
}

test('The signal ends a pause, but not the work in progress', async () => {
  const stopController = new AbortController();
  const { promise, resolve } = Promise.withResolvers<void>();
  const options = { signal: stopController.signal, onError: assert.ifError };
  let hasEnded = false;
  const ending = repeat(HOUR_MS, () => promise, options).then(() => (hasEnded = true));
  stopController.abort();
  await tick();
  assert.equal(hasEnded, false);
  resolve();
  await ending;
});

/** Creates a gauge collector whose readings the test completes. */
function createScriptedMeasure() {
  const readings: PromiseWithResolvers<number>[] = [];
  const state = { now: 0, gaugeValue: undefined as number | undefined, errors: 0 };
  const collect = createGaugeCollector<number>({
    read() {
      const reading = Promise.withResolvers<number>();
      readings.push(reading);
      return reading.promise;
    },
    update: (value) => (state.gaugeValue = value),
    reset: () => (state.gaugeValue = undefined),
    onError: () => (state.errors += 1),
    clock: () => state.now,
  });
  return { readings, state, collect };
}

test('Scrapes share a reading, and a failed reading keeps the earlier value', async () => {
  const { readings, state, collect } = createScriptedMeasure();
  const scrapes = Promise.all([collect(), collect()]);
  readings[0]?.resolve(1);
  await scrapes;
  assert.deepEqual([state.gaugeValue, readings.length], [1, 1]);
  const failingRun = collect();
  readings[1]?.reject(new Error('no database'));
  await failingRun;
  assert.deepEqual([state.gaugeValue, state.errors], [1, 1]);
});

test('A scrape does not wait for its reading and shows the old value for five minutes', async () => {
  const { readings, state, collect } = createScriptedMeasure();
  const scrapeWithoutReading = async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    try {
      const scrape = collect();
      mock.timers.tick(2000);
      await scrape;
    } finally {
      mock.timers.reset();
    }
  };
  const firstPromise = collect();
  readings[0]?.resolve(1);
  await firstPromise;
  state.now = 300_000;
  await scrapeWithoutReading();
  await scrapeWithoutReading();
  assert.deepEqual([state.gaugeValue, readings.length], [1, 2]);
  state.now = 300_001;
  await scrapeWithoutReading();
  assert.equal(state.gaugeValue, undefined);
  readings[1]?.resolve(2);
  await tick();
  assert.equal(state.gaugeValue, 2);
});

test('Work that fails after an abort crashes no process', async () => {
  const stopError = new Error('stopped');
  const { promise, reject } = Promise.withResolvers<never>();
  await assert.rejects(rejectOnAbort(AbortSignal.abort(stopError), promise), stopError);
  // Node would end the process because of an unhandled rejection.
  reject(new Error('the work failed later'));
  await tick();
});
