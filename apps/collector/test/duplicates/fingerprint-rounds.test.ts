import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFingerprintRounds } from '../../src/duplicates/fingerprint-rounds.ts';

const HOUR_MS = 3_600_000;

test('pictures that could not be read are tried again an hour later, and only those', async () => {
  let time = 0;
  let isAway = true;
  const turns: string[] = [];
  const unreadable: string[] = [];
  const next = createFingerprintRounds(
    {
      fingerprintStored({ after, onError }) {
        turns.push(after);
        if (after !== '') return Promise.resolve(undefined);
        if (isAway) onError(new Error('the store is away'), 'a');
        return Promise.resolve('a');
      },
    },
    {
      signal: new AbortController().signal,
      onError: (_error, sha256) => unreadable.push(sha256),
      now: () => time,
    },
  );
  const rounds = async () => {
    for (let n = 0; n < 5; n += 1) await next();
    return turns.splice(0);
  };
  assert.deepEqual(await rounds(), ['', 'a']);
  time = HOUR_MS - 1;
  assert.deepEqual(await rounds(), []);
  isAway = false;
  time = HOUR_MS;
  assert.deepEqual(await rounds(), ['', 'a']);
  // All could be read, so there is nothing left to come back for.
  time = 100 * HOUR_MS;
  assert.deepEqual(await rounds(), []);
  assert.deepEqual(unreadable, ['a']);
});
