import assert from 'node:assert/strict';
import { setImmediate as tick } from 'node:timers/promises';
import { mock, test } from 'node:test';
import { until } from '@oselya/testing';
import { repeat } from '../../src/async/wait.ts';
import { createMeasure } from '../../src/metrics.ts';

const HOUR_MS = 3_600_000;

test('Failed work is repeated sooner, and then at its interval', async () => {
  const ended = new AbortController();
  const errors: unknown[] = [];
  let runs = 0;
  const work = async () => {
    runs += 1;
    if (runs < 3) throw new Error(`run ${runs}`);
  };
  const onError = (error: unknown) => void errors.push(error);
  const repeating = repeat(HOUR_MS, work, { signal: ended.signal, retryMs: 1, onError });
  await until('it to succeed', () => runs === 3);
  ended.abort();
  await repeating;
  assert.deepEqual([runs, errors.map(String)], [3, ['Error: run 1', 'Error: run 2']]);
});

test('The interval bounds the wait after a failure', async () => {
  const ended = new AbortController();
  let runs = 0;
  const work = async () => {
    runs += 1;
    throw new Error('always');
  };
  const options = { signal: ended.signal, retryMs: HOUR_MS, onError: () => undefined };
  const repeating = repeat(1, work, options);
  await until('some runs', () => runs >= 3);
  ended.abort();
  await repeating;
});

test('The signal ends a pause, but not the work in progress', async () => {
  const ended = new AbortController();
  const { promise, resolve } = Promise.withResolvers<void>();
  let begun = 0;
  const work = () => {
    begun += 1;
    return promise;
  };
  const repeating = repeat(HOUR_MS, work, { signal: ended.signal, onError: assert.ifError });
  ended.abort();
  let hasEnded = false;
  const ending = repeating.then(() => (hasEnded = true));
  await tick();
  assert.equal(hasEnded, false);
  resolve();
  await ending;
  assert.equal(begun, 1);
});

/** A measure whose readings the test ends; `shown` is the value of the gauge. */
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

/** Scrapes for the longest time that a scrape waits. */
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

test('Scrapes share a reading, and a failed one keeps the value before it', async () => {
  const { readings, state, collect } = scriptedMeasure();
  const scrapes = Promise.all([collect(), collect()]);
  readings[0]?.resolve(1);
  await scrapes;
  assert.deepEqual([state.shown, readings.length], [1, 1]);
  const failing = collect();
  readings[1]?.reject(new Error('no database'));
  await failing;
  assert.deepEqual([state.shown, state.errors], [1, 1]);
});

test('A scrape does not wait for its reading and shows the old value for five minutes', async () => {
  const { readings, state, collect } = scriptedMeasure();
  const first = collect();
  readings[0]?.resolve(1);
  await first;
  state.now = 300_000;
  await scrapeToItsEnd(collect);
  await scrapeToItsEnd(collect);
  assert.deepEqual([state.shown, readings.length], [1, 2]);
  state.now = 300_001;
  await scrapeToItsEnd(collect);
  assert.equal(state.shown, undefined);
  readings[1]?.resolve(2);
  await tick();
  assert.equal(state.shown, 2);
});
