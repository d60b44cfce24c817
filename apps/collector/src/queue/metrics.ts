import { Gauge, type Registry } from 'prom-client';
import { createMeasure } from '../async/measure.ts';
import type { ReadQueue } from './figures.ts';

/** How old the gauges may be: several scrapers, or an impatient one, cost one query. */
const MAX_AGE_MS = 5000;

/**
 * The queue's gauges. They are read from the database when they are asked for, or were so a few seconds
 * before, so every process shows the one queue. A count that is not known yet is left out. Contract 4, Metrics.
 * @param onError Told where the database does not answer: the other metrics are served all the same.
 */
export function registerQueueMetrics(
  registry: Registry,
  { readQueue, onError }: { readQueue: ReadQueue; onError: (error: unknown) => void },
): void {
  // Each of the two waits: they are collected at the same time, and show what is there when that is over.
  const collect = createMeasure({
    read: () => readQueue({ maxAgeMs: MAX_AGE_MS }),
    show({ counts, oldestPendingSeconds }) {
      for (const [status, count] of Object.entries(counts)) {
        if (count !== null) jobs.set({ status }, count);
      }
      oldest.set(oldestPendingSeconds ?? 0);
    },
    forget() {
      jobs.reset();
      oldest.remove();
    },
    onError,
  });
  const oldest = new Gauge({
    name: 'collector_queue_oldest_pending_seconds',
    help: 'Age of the oldest pending payload, since it came or was put back; 0 while there is none.',
    registers: [registry],
    collect,
  });
  const jobs = new Gauge({
    name: 'collector_queue_jobs',
    help: 'Payloads by status; those that have ended, where more than 100000 have, as they were counted last.',
    labelNames: ['status'],
    registers: [registry],
    collect,
  });
}
