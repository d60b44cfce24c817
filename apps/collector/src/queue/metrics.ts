import { Gauge, type Registry } from 'prom-client';
import type { ReadQueue } from './figures.ts';

/** How old the gauges may be: several scrapers, or an impatient one, cost one query. */
const MAX_AGE_MS = 5000;

/**
 * The queue's gauges. They are read from the database when they are asked for, or were so a few seconds
 * before, so every process shows the one queue. Contract 4, Metrics.
 * @param onError Told where the database does not answer: the other metrics are served all the same.
 */
export function registerQueueMetrics(
  registry: Registry,
  { readQueue, onError }: { readQueue: ReadQueue; onError: (error: unknown) => void },
): void {
  const oldest = new Gauge({
    name: 'collector_queue_oldest_pending_seconds',
    help: 'Age of the oldest pending payload; 0 while there is none.',
    registers: [registry],
  });
  const jobs = new Gauge({
    name: 'collector_queue_jobs',
    help: 'Payloads by status.',
    labelNames: ['status'],
    registers: [registry],
    async collect() {
      try {
        const figures = await readQueue({ maxAgeMs: MAX_AGE_MS });
        for (const [status, count] of Object.entries(figures.counts)) jobs.set({ status }, count);
        oldest.set(figures.oldestPendingSeconds ?? 0);
      } catch (error) {
        onError(error);
      }
    },
  });
}
