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

test('never later than at its interval, and no sooner unless told', async (t) => {
  for (const retryMs of [HOUR_MS, undefined]) {
    const ended = new AbortController();
    t.after(() => ended.abort());
    let turns = 0;
    const work = async () => {
      turns += 1;
      throw new Error('always');
    };
    const options = { signal: ended.signal, onError: () => undefined };
    const repeating = repeat(1, work, retryMs === undefined ? options : { ...options, retryMs });
    await until('some turns', () => turns >= 3);
    ended.abort();
    await repeating;
  }
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
