import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { backoffMs } from '../../src/resilience/backoff.ts';

test('doubles from the initial delay up to the bound', () => {
  const bounds = { initialDelayMs: 500, maxDelayMs: 3_000 };
  assert.deepEqual(
    [1, 2, 3, 4, 50].map((failures) => backoffMs(failures, bounds, 0)),
    [250, 500, 1_000, 1_500, 1_500],
  );
});

test('is never shorter than half of the delay, nor longer than the bound', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 2_000 }),
      fc.nat(60_000),
      fc.nat(60_000),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      (failures, initialDelayMs, maxDelayMs, random) => {
        const wait = backoffMs(failures, { initialDelayMs, maxDelayMs }, random);
        assert.ok(wait <= maxDelayMs);
        assert.ok(wait >= Math.min(initialDelayMs, maxDelayMs) / 2);
      },
    ),
  );
});
