import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import type { Metrics } from '../metrics.ts';
import { type Job, logFieldsOf } from './job.ts';
import { outlastOutages } from './outlast-outages.ts';
import { type Returning, returnJobs, returnStrays } from './return.sql.ts';
import type { Slot } from './slots.ts';

/** How a worker gives back what it has claimed and does not run. None of this throws, but `strays`. */
export type GiveBack = {
  /**
   * Returns jobs that were not begun to the queue, and counts them. While the database is away that waits, until the
   * worker stops.
   */
  give(jobs: readonly Job[]): Promise<void>;
  /**
   * The same with jobs that were begun: whoever runs them counts them.
   * @returns The ids of those that are back.
   */
  giveBegun(jobs: readonly (Job & Returning)[]): Promise<ReadonlySet<number>>;
  /** Notes that a claim met an outage: it may have been made without the worker's hearing of it. */
  noteOutage(): void;
  /**
   * After an outage, returns the jobs that the worker has claimed without hearing of it.
   * @throws What the database throws.
   */
  strays(known: readonly Slot[]): Promise<void>;
  /** Waits for whatever is on its way back. */
  settled(): Promise<void>;
};

/**
 * Makes what gives jobs back for the worker of a name.
 * @param stopping Aborted when the worker stops.
 */
export function createGiveBack(
  deps: { db: Kysely<Tables>; log: Logger; metrics: Pick<Metrics, 'jobs'>; worker: string },
  stopping: AbortSignal,
): GiveBack {
  const { db, log, metrics, worker } = deps;
  const returning = new Set<Promise<unknown>>();
  let mayHaveStrays = false;

  async function giveNow(jobs: readonly (Job & Returning)[]): Promise<ReadonlySet<number>> {
    try {
      return await outlastOutages({ db, log }, (isAgain) => returnJobs(db, jobs, { isAgain }), {
        signal: stopping,
      });
    } catch (error) {
      for (const job of jobs) {
        log.error({ err: error, ...logFieldsOf(job) }, 'a job could not be returned');
      }
      return new Set();
    }
  }

  async function giveBegun(jobs: readonly (Job & Returning)[]): Promise<ReadonlySet<number>> {
    const given = giveNow(jobs);
    returning.add(given);
    const ids = await given;
    returning.delete(given);
    return ids;
  }

  function count(jobs: ReadonlySet<number>): void {
    if (jobs.size > 0) metrics.jobs.inc({ outcome: 'returned' }, jobs.size);
  }

  return {
    async give(jobs) {
      count(await giveBegun(jobs));
    },
    giveBegun,
    noteOutage() {
      mayHaveStrays = true;
    },
    async strays(known) {
      if (!mayHaveStrays) return;
      const ids = known.map(({ job }) => job.rawId);
      const strays = await returnStrays(db, worker, ids);
      if (strays.size > 0) log.warn({ raw_ids: [...strays] }, 'jobs of a lost claim were returned');
      count(strays);
      mayHaveStrays = false;
    },
    async settled() {
      await Promise.all(returning);
    },
  };
}
