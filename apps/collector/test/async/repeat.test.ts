import assert from 'node:assert/strict';
import { test } from 'node:test';
import { repeat } from '../../src/async/repeat.ts';
import { until } from '../support/until.ts';

const HOUR_MS = 3_600_000;

test('what failed is done again sooner, and then at its interval', async () => {
  const ended = new AbortController();
  const errors: unknown[] = [];
  let turns = 0;
  const repeating = repeat(
    HOUR_MS,
    async () => {
      turns += 1;
      if (turns < 3) throw new Error(`turn ${turns}`);
    },
    { signal: ended.signal, retryMs: 1, onError: (error) => errors.push(error) },
  );
  await until('it to succeed', () => turns === 3);
  ended.abort();
  await repeating;
  assert.deepEqual([turns, errors.map(String)], [3, ['Error: turn 1', 'Error: turn 2']]);
});

/** Always fails. */
function failing(intervalMs: number, options: { retryMs?: number }) {
  const ended = new AbortController();
  let turns = 0;
  const repeating = repeat(
    intervalMs,
    async () => {
      turns += 1;
      throw new Error('always');
    },
    { ...options, signal: ended.signal, onError: () => undefined },
  );
  return {
    turns: () => turns,
    end: async () => {
      ended.abort();
      await repeating;
    },
  };
}

test('what failed is not done again later than at its interval', async () => {
  const { turns, end } = failing(1, { retryMs: HOUR_MS });
  await until('some turns', () => turns() >= 3);
  await end();
});

test('what failed is not done again sooner unless that is told', async () => {
  const rare = failing(HOUR_MS, {});
  const often = failing(1, {});
  await until('what is done every millisecond', () => often.turns() >= 10);
  assert.equal(rare.turns(), 1);
  await Promise.all([rare.end(), often.end()]);
});

test('the signal ends it in the midst of a pause, and a piece of work is never cut short', async () => {
  const ended = new AbortController();
  const { promise, resolve } = Promise.withResolvers<void>();
  let begun = 0;
  const repeating = repeat(
    HOUR_MS,
    () => {
      begun += 1;
      return promise;
    },
    { signal: ended.signal, onError: assert.ifError },
  );
  ended.abort();
  let hasEnded = false;
  const ending = repeating.then(() => (hasEnded = true));
  await new Promise((done) => setImmediate(done));
  assert.equal(hasEnded, false);
  resolve();
  await ending;
  assert.equal(begun, 1);
});
