import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { mock, test } from 'node:test';
import { createMeasure } from '../../src/async/measure.ts';

/** A measure whose readings end when they are told; `shown` is what a scrape would show. */
function scriptedMeasure() {
  const readings: PromiseWithResolvers<number>[] = [];
  const state = { now: 0, shown: undefined as number | undefined, errors: 0 };
  const collect = createMeasure<number>({
    read() {
      const reading = Promise.withResolvers<number>();
      readings.push(reading);
      return reading.promise;
    },
    show: (value) => (state.shown = value),
    forget: () => (state.shown = undefined),
    onError: () => (state.errors += 1),
    clock: () => state.now,
  });
  return { readings, state, collect };
}

/** Scrapes, and passes the time that a scrape waits at most. */
async function scrapeToItsEnd(collect: () => Promise<void>): Promise<void> {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const scrape = collect();
    mock.timers.tick(2000);
    await scrape;
  } finally {
    mock.timers.reset();
  }
}

test('what comes in time is shown, and one is asked for at a time', async () => {
  const { readings, state, collect } = scriptedMeasure();
  const scrapes = Promise.all([collect(), collect()]);
  readings[0]?.resolve(1);
  await scrapes;
  assert.deepEqual([state.shown, readings.length], [1, 1]);
  const next = collect();
  readings[1]?.resolve(2);
  await next;
  assert.deepEqual([state.shown, readings.length], [2, 2]);
});

test('a scrape ends while nothing comes, what was before is kept, and what comes late is shown', async () => {
  const { readings, state, collect } = scriptedMeasure();
  const first = collect();
  readings[0]?.resolve(1);
  await first;
  state.now = 300_000;
  await scrapeToItsEnd(collect);
  await scrapeToItsEnd(collect);
  assert.deepEqual([state.shown, readings.length], [1, 2], 'the second one is still asked for');
  state.now = 300_001;
  await scrapeToItsEnd(collect);
  assert.equal(state.shown, undefined, 'it is too old');
  readings[1]?.resolve(2);
  await turn();
  assert.equal(state.shown, 2);
});

test('a failure is told, and keeps what was before', async () => {
  const { readings, state, collect } = scriptedMeasure();
  const first = collect();
  readings[0]?.resolve(1);
  await first;
  const second = collect();
  readings[1]?.reject(new Error('no database'));
  await second;
  assert.deepEqual([state.shown, state.errors], [1, 1]);
});
