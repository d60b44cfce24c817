import { type Logger, withLogFields } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { RawError, StageRecord, Tables } from '../tables.ts';
import type { Metrics } from '../metrics.ts';
import { createModelCost, type ModelCost } from '../model/cost.ts';
import { hasEnded } from './finish.sql.ts';
import { createFinish } from './finish.ts';
import { type Job, type JobResult, LeaseLostError, logFieldsOf, ReturnedError } from './job.ts';
import { outlastOutages } from './outlast-outages.ts';
import { returnJobs } from './return.sql.ts';

/**
 * @typeParam Input What whoever has a job run gives along with it; the queue passes it on. A worker gives
 * none.
 */
export type JobOptions<Input = never> = {
  /** Aborted when the claim is lost or the worker ends. */
  signal: AbortSignal;
  /** Where the stages that it has been through are noted, for whoever looks meanwhile. */
  stages?: StageRecord[] | undefined;
  /** Where the requests to the model are counted, for whoever gives the job back meanwhile. */
  cost?: ModelCost | undefined;
  input?: Input | undefined;
  /** How long outages of the database may be waited for, all together; as long as they take, unless given. */
  patience?: { leftMs: number } | undefined;
};

/**
 * What a job came to; `postponed` is back to the queue, because what it needs is not there at present, for the reason in
 * `error`. It is suspect where that failed while it worked on the job, which may be why.
 */
export type ProcessResult =
  | JobResult
  | { status: 'postponed'; isSuspect?: boolean; error?: RawError | undefined };

/**
 * The work of a job, which counts in `cost` what it asks the model. It writes nothing about the job's status.
 */
export type ProcessJob<Input = never> = (
  job: Job,
  options: JobOptions<Input>,
) => Promise<ProcessResult>;

/** How a claim ended; `returned` is back to the queue because the worker ends, and `lost` was nobody's to write. */
export type JobOutcome = ProcessResult['status'] | 'returned' | 'lost';

/**
 * Makes the function that does a job's work and writes the one status that it came to. An exception
 * fails the job. The function itself never throws: while the database is away, the status waits to be
 * written, and one that could not be written, such as where that is what brings the database down, is left to
 * the rescue of lost leases. `onProcessed` is called where there is nothing left but to write that a job has
 * ended. Specification 001, Raw data status.
 */
export function createJobRunner<Input>(deps: {
  db: Kysely<Tables>;
  process: ProcessJob<Input>;
  metrics: Pick<Metrics, 'jobs'>;
  log: Logger;
}): (job: Job, options: JobOptions<Input>, onProcessed?: () => void) => Promise<JobOutcome> {
  const { db, process, metrics, log } = deps;
  const finish = createFinish(deps);

  async function processed(job: Job, options: JobOptions<Input>): Promise<ProcessResult> {
    try {
      return await process(job, options);
    } catch (error) {
      if (options.signal.aborted || error instanceof LeaseLostError) throw error;
      log.error({ err: error }, 'a job threw an exception');
      const message = 'The worker failed; its log has more.';
      return {
        status: 'failed',
        error: { code: 'internal_error', message },
        stages: options.stages ?? [],
        listingId: null,
      };
    }
  }

  async function settled(
    job: Job,
    options: JobOptions<Input>,
    onProcessed?: () => void,
  ): Promise<JobOutcome> {
    const { cost = createModelCost(), stages = [] } = options;
    try {
      const result = await processed(job, { ...options, stages, cost });
      const modelUsage = cost.usage();
      if (result.status === 'postponed') {
        const back = await outlastOutages(
          deps,
          (isAgain) =>
            returnJobs(db, [{ ...job, stages, modelUsage, error: result.error }], { isAgain }),
          options,
        );
        return back.has(job.rawId) ? 'postponed' : 'lost';
      }
      onProcessed?.();
      const ending = { job, result, modelUsage };
      const isWritten = await outlastOutages(
        deps,
        async (isAgain) => (await finish(ending)) || (isAgain && hasEnded(db, ending)),
        options,
      );
      return isWritten ? result.status : givenUp(options.signal);
    } catch (error) {
      log.warn({ err: options.signal.reason ?? error }, 'a job was given up');
      return givenUp(options.signal);
    }
  }

  return (job, options, onProcessed) =>
    withLogFields(logFieldsOf(job), async () => {
      const startedAt = performance.now();
      const outcome = await settled(job, options, onProcessed);
      // Whatever sent it back, the queue has it again, at no cost.
      metrics.jobs.inc({ outcome: outcome === 'postponed' ? 'returned' : outcome });
      log.info({ outcome, duration_ms: Math.round(performance.now() - startedAt) }, 'job');
      return outcome;
    });
}

function givenUp({ reason }: AbortSignal): 'returned' | 'lost' {
  return reason instanceof ReturnedError ? 'returned' : 'lost';
}
