import { startCountdown, settlesWithin, repeat } from '../async/wait.ts';
import { type Job, type JobOutcomeStatus, getJobLogFields } from './job-types.ts';
import { returnJobs } from './job-writes.ts';
import { createJobRunner, type RunnerOptions } from './job-runner.ts';

/** Maximum time to close after the timeout of the jobs, in milliseconds. */
const GIVE_UP_MS = 2000;

/**
 * Jobs that run for a request or a command, outside the worker.
 * @typeParam Input Additional input of the pipeline.
 */
export type InlineJobs<Input = never> = {
  /** Runs a job that this process has claimed. Returns `lost` after `close`. */
  run(
    job: Job,
    options: { input?: Input | undefined; signal?: AbortSignal },
  ): Promise<JobOutcomeStatus>;
  /** Rejects new jobs, waits at most `timeoutMs` for running jobs, and aborts the rest. */
  close(options: { timeoutMs: number }): Promise<void>;
};

/**
 * Creates the inline jobs of a process. An aborted job returns to the queue, or fails if it has uploads.
 * Specification 001, Raw data status.
 */
export function createInlineJobs<Input>(deps: RunnerOptions<Input>): InlineJobs<Input> {
  const { db, log, leaseMs } = deps;
  const runner = createJobRunner(deps);
  const ended = new AbortController();
  const renewing = repeat(leaseMs / 3, () => runner.renew(), {
    signal: ended.signal,
    retryMs: 1000,
    onError: (error) => log.warn({ err: error }, 'leases could not be renewed'),
  });
  let closing = false;

  return {
    async run(job, options) {
      if (!closing) return runner.run(job, options);
      await returnJobs(db, [job]).catch((error: unknown) =>
        log.error({ err: error, ...getJobLogFields(job) }, 'a job could not be returned'),
      );
      return 'lost';
    },
    async close({ timeoutMs }) {
      const leftMs = startCountdown(timeoutMs + GIVE_UP_MS);
      closing = true;
      await runner.end(timeoutMs, leftMs);
      ended.abort();
      await settlesWithin(renewing, leftMs());
    },
  };
}
