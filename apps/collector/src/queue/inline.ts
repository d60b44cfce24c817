import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import type { Metrics } from '../metrics.ts';
import { countDown, inTime } from '../async/in-time.ts';
import { type Job, logFieldsOf } from './job.ts';
import { keepLeases } from './leases.ts';
import { returnJobs } from './return.sql.ts';
import { createJobRunner, type JobOptions, type JobOutcome, type ProcessJob } from './run-job.ts';
import { createSlots } from './slots.ts';

/** How long a close may take beyond the time that jobs have: for those that took longer to notice, and go back. */
const GIVE_UP_MS = 2000;
/**
 * How long a job waits for a database that is away, in all: a restart takes seconds, and somebody waits for the
 * job.
 */
const PATIENCE_MS = 30_000;

/** @typeParam Input What the pipeline gets along with a job. */
export type InlineJobs<Input = never> = {
  /**
   * Runs the pipeline for a job that this process has claimed, and writes how it ended. It never throws:
   * a job that was given up, or came too late to be begun, is `lost`.
   * @param options.signal Gives the job up.
   */
  run(job: Job, options: { input?: Input | undefined; signal?: AbortSignal }): Promise<JobOutcome>;
  /** Begins nothing new, waits for what is in progress, at most so long, and gives the rest up. */
  close(options: { timeoutMs: number }): Promise<void>;
};

/**
 * Jobs that run for whoever waits for them, beside the worker's: the same runner and the same leases, but
 * nothing is taken off the queue. A job that is given up goes back to it, except where its pictures came
 * with its request (see `returnJobs`). Specification 001, Raw data status.
 */
export function createInlineJobs<Input>(deps: {
  db: Kysely<Tables>;
  process: ProcessJob<Input>;
  metrics: Pick<Metrics, 'jobs'>;
  log: Logger;
  leaseMs: number;
}): InlineJobs<Input> {
  const { db, log } = deps;
  const runJob = createJobRunner(deps);
  const slots = createSlots(Infinity, () => undefined);
  const ended = new AbortController();
  const upkeep = keepLeases({ ...deps, slots }, ended.signal);
  let closing = false;

  async function settle(job: Job, options: JobOptions<Input>): Promise<JobOutcome> {
    const patience = { leftMs: PATIENCE_MS };
    const outcome = closing ? 'lost' : await runJob(job, { ...options, patience });
    if (outcome !== 'lost') return outcome;
    try {
      // Whatever ended the work before its end was written, nobody should have to wait for the lease.
      await returnJobs(db, [{ ...job, stages: options.stages, modelUsage: options.cost?.usage() }]);
    } catch (error) {
      log.error({ err: error, ...logFieldsOf(job) }, 'a job could not be returned');
    }
    return outcome;
  }

  return {
    run(job, { input, signal }) {
      const { promise, resolve } = Promise.withResolvers<JobOutcome>();
      slots.run(job, async ({ controller: { signal: lost }, stages, cost }) => {
        const either = signal === undefined ? lost : AbortSignal.any([lost, signal]);
        resolve(await settle(job, { input, signal: either, stages, cost }));
      });
      return promise;
    },
    async close({ timeoutMs }) {
      const leftMs = countDown(timeoutMs + GIVE_UP_MS);
      closing = true;
      if (!(await slots.empty(timeoutMs))) {
        for (const { controller } of slots.all()) {
          controller.abort(new Error('The service is shutting down'));
        }
        await slots.empty(leftMs());
      }
      ended.abort();
      await inTime(upkeep, leftMs());
    },
  };
}
