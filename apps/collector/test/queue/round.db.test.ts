import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { createMetrics } from '../../src/metrics.ts';
import { startWorker } from '../../src/queue/worker.ts';
import { fakeBreaker } from '../support/breaker.ts';
import { openDatabase } from '../support/database.ts';
import { log } from '../support/pipeline.ts';
import { until } from '../support/until.ts';
import { completed, fill } from './harness.ts';

const { db } = await openDatabase();

test('a worker of one slot goes round: no backlog of others holds up the last source', async () => {
  // More sources than one claim takes from, so that each claim has to go on where the last one ended.
  const busy = Array.from({ length: 20 }, (_, nth) => `busy-${String(nth).padStart(2, '0')}`);
  for (const source of busy) await fill(db, source, 20);
  await fill(db, 'single', 1);
  const begun: string[] = [];
  const worker = startWorker({
    db,
    process: (job) => {
      begun.push(job.sourceSlug);
      return Promise.resolve(completed);
    },
    breaker: fakeBreaker(),
    metrics: createMetrics(new Registry()),
    log,
    slots: 1,
    leaseMs: 60_000,
    maxAttempts: 3,
  });
  try {
    await until('all to be processed', () => begun.length === 20 * busy.length + 1);
  } finally {
    await worker.stop({ timeoutMs: 20_000 });
  }
  // A claim takes some of each of its sources, as many as jobs have just ended.
  const place = begun.indexOf('single');
  assert.ok(place < 100, `it was the ${place}th of ${begun.length}`);
  const beforeSecond = begun.lastIndexOf('busy-00');
  assert.ok(beforeSecond > place, 'the first source had more to do by then');
});
