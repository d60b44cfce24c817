import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { createMetrics } from '../../src/metrics.ts';
import { measureWorker } from '../../src/operations/worker-metrics.ts';
import type { ProcessResult } from '../../src/queue/job.ts';

const job = { rawId: 1, attempt: 1, sourceSlug: 'doshka', externalId: '1', contentHash: 'a' };
const options = { signal: new AbortController().signal };

test('jobs in progress are counted until they end, whatever the end', async () => {
  const metrics = createMetrics(new Registry());
  const ends = [0, 1].map(() => Promise.withResolvers<ProcessResult>());
  let begun = 0;
  const process = measureWorker(
    () => {
      begun += 1;
      return ends[begun - 1]?.promise ?? Promise.reject(new Error('one job too many'));
    },
    { metrics, slots: 2 },
  );
  const inProgress = async () => (await metrics.workerJobs.get()).values[0]?.value;
  assert.equal((await metrics.workerSlots.get()).values[0]?.value, 2);
  assert.equal(await inProgress(), 0);

  const running = ends.map(() => process(job, options));
  assert.equal(await inProgress(), 2);
  ends[0]?.resolve({ status: 'postponed' });
  assert.deepEqual(await running[0], { status: 'postponed' });
  assert.equal(await inProgress(), 1);
  ends[1]?.reject(new Error('broken'));
  await assert.rejects(running[1] ?? Promise.resolve(), /broken/);
  assert.equal(await inProgress(), 0);
});
