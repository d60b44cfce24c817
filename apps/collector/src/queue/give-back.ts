import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../database/tables.ts';
import { type Job, logFieldsOf } from './job.ts';
import { outlastOutages } from './outlast-outages.ts';
import { type Returning, returnJobs, returnStrays } from './return.sql.ts';
import type { Slot } from './slots.ts';

/** How a worker gives back what it has claimed and does not run. None of this throws, but `strays`. */
export type GiveBack = {
  /** Returns jobs to the queue. While the database is away that waits, until the worker stops. */
  give(jobs: readonly (Job & Returning)[]): Promise<void>;
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
  { db, log, worker }: { db: Kysely<Tables>; log: Logger; worker: string },
  stopping: AbortSignal,
): GiveBack {
  const returning = new Set<Promise<void>>();
  let mayHaveStrays = false;

  async function giveNow(jobs: readonly (Job & Returning)[]): Promise<void> {
    try {
      await outlastOutages({ db, log }, () => returnJobs(db, jobs), { signal: stopping });
    } catch (error) {
      for (const job of jobs) {
        log.error({ err: error, ...logFieldsOf(job) }, 'a job could not be returned');
      }
    }
  }

  return {
    async give(jobs) {
      const given = giveNow(jobs);
      returning.add(given);
      await given;
      returning.delete(given);
    },
    noteOutage() {
      mayHaveStrays = true;
    },
    async strays(known) {
      if (!mayHaveStrays) return;
      const ids = known.map(({ job }) => job.rawId);
      const strays = await returnStrays(db, worker, ids);
      if (strays.size > 0) log.warn({ raw_ids: [...strays] }, 'jobs of a lost claim were returned');
      mayHaveStrays = false;
    },
    async settled() {
      await Promise.all(returning);
    },
  };
}
