import type { Metrics } from '../metrics.ts';
import type { ProcessJob } from '../queue/job.ts';

/**
 * Shows how busy the worker of this process is: its slots, the jobs in progress in them, and when it last
 * took one, which is now where a job has just begun.
 */
export function measureWorker(
  process: ProcessJob,
  { metrics, slots }: { metrics: Metrics; slots: number },
): ProcessJob {
  metrics.workerSlots.set(slots);
  return async (job, options) => {
    metrics.workerLastClaim.setToCurrentTime();
    metrics.workerJobs.inc();
    try {
      return await process(job, options);
    } finally {
      metrics.workerJobs.dec();
    }
  };
}
