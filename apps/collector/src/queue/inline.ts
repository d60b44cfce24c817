import { startCountdown, settlesWithin, repeat } from '../async/wait.ts';
import { type Job, type JobOutcomeStatus, getJobLogFields } from './job-types.ts';
import { returnJobs } from './job-writes.ts';
import { createJobRunner, type RunnerOptions } from './job-runner.ts';

/** How long a close may take beyond the time that jobs have. */
const GIVE_UP_MS = 2000;

/**
 * Jobs that run for a request or a command, beside the worker's.
 * @typeParam Input What the pipeline gets along with a job.
 */
export type InlineJobs<Input = never> = {
  /** Runs a job that this process has claimed; it is `lost` where it was given up, or came after the close. */
  run(
    job: Job,
    options: { input?: Input | undefined; signal?: AbortSignal },
  ): Promise<JobOutcomeStatus>;
  /** Starts nothing more, waits `timeoutMs` at most for the jobs in progress, and gives up the rest. */
  close(options: { timeoutMs: number }): Promise<void>;
};

/**
 * Creates the inline jobs of a process. A job that is given up goes back to the queue, or fails where its images came
 * with its request. Specification 001, Raw data status.
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
