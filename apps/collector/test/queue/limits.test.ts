import assert from 'node:assert/strict';
import { test } from 'node:test';
import { offlineDatabase } from '@oselya/db';
import { Registry } from 'prom-client';
import { readConfig } from '../../src/config.ts';
import type { Tables } from '../../src/tables.ts';
import { createMetrics } from '../../src/metrics.ts';
import { createPrefetch, MAX_PREFETCHED, MAX_WAIT_MS } from '../../src/queue/prefetch.ts';
import { rescueIntervalMs } from '../../src/queue/leases.ts';
import { POLL_MS, startWorker } from '../../src/queue/worker.ts';
import { fakeBreaker } from '../support/breaker.ts';
import { log } from '../support/pipeline.ts';

test('a lease is a minute, a job has three attempts', () => {
  const { COLLECTOR_LEASE_SECONDS, COLLECTOR_MAX_ATTEMPTS } = readConfig({});
  assert.deepEqual([COLLECTOR_LEASE_SECONDS, COLLECTOR_MAX_ATTEMPTS], [60, 3]);
});

test('with that lease the jobs of a lost worker are found within two minutes', () => {
  const leaseMs = readConfig({}).COLLECTOR_LEASE_SECONDS * 1000;
  assert.equal(rescueIntervalMs(leaseMs), 30_000);
  assert.ok(leaseMs + rescueIntervalMs(leaseMs) <= 120_000);
  assert.equal(rescueIntervalMs(3_600_000), 30_000, 'a long lease is looked at no more rarely');
  assert.equal(rescueIntervalMs(5000), 2500);
});

test('a worker without work waits a second for its next look', async (t) => {
  const timers = t.mock.method(globalThis, 'setTimeout');
  const worker = startWorker({
    db: offlineDatabase<Tables>().db,
    process: () => Promise.reject(new Error('There is no job')),
    breaker: fakeBreaker(),
    metrics: createMetrics(new Registry()),
    log,
    slots: 1,
    leaseMs: 60_000,
    maxAttempts: 3,
  });
  await new Promise((resolve) => setImmediate(resolve));
  await new Promise((resolve) => setImmediate(resolve));
  await worker.stop({ timeoutMs: 0 });
  assert.equal(POLL_MS, 1000);
  assert.ok(timers.mock.calls.some((call) => call.arguments[1] === POLL_MS));
});

test('as many jobs are claimed ahead as ended meanwhile, a hundred at most, and wait a second', () => {
  const slots = { processed: 0, takeWaiting: (forMs?: number) => (waited.push(forMs), []) };
  const waited: unknown[] = [];
  const prefetch = createPrefetch(slots, MAX_WAIT_MS);
  const next = (processed: number) => {
    slots.processed = processed;
    return prefetch.next();
  };
  assert.deepEqual([next(0), next(3), next(3), next(1000)], [0, 3, 0, MAX_PREFETCHED]);
  prefetch.takeLate();
  assert.deepEqual([MAX_PREFETCHED, waited], [100, [1000]]);
});
