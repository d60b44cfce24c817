import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type DrainSample, findCountMismatches } from '../../src/queue/drain.ts';
import { collector, graphileWorker } from '../../src/queue/variants.ts';

const sampleOf = (values: Partial<DrainSample & { filled: number }> = {}) => ({
  variant: collector.name,
  round: 1,
  filled: 1000,
  jobs: 500,
  seconds: 1,
  cpuMs: 10,
  started: 600,
  repeated: 0,
  left: 400,
  ...values,
});

test('each job that was started has ended, and each was started once', () => {
  assert.deepEqual(findCountMismatches(sampleOf()), []);
  assert.deepEqual(findCountMismatches(sampleOf({ left: 401 })), [
    'collector: of 1000 jobs 600 started, 0 again, 401 are left',
  ]);
  assert.equal(findCountMismatches(sampleOf({ left: 399 })).length, 1, 'one ended without a start');
  assert.equal(findCountMismatches(sampleOf({ repeated: 1 })).length, 1);
  assert.equal(
    findCountMismatches(sampleOf({ started: 0, left: 1000 })).length,
    1,
    'nothing was measured',
  );
});

test('a peer may leave what was in progress', () => {
  const variant = graphileWorker.name;
  assert.deepEqual(findCountMismatches(sampleOf({ variant, left: 424 })), []);
  assert.equal(findCountMismatches(sampleOf({ variant, left: 425 })).length, 1);
});
