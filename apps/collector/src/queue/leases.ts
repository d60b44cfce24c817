import { isDatabaseOutage, retryConflicts } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { repeat } from '../async/repeat.ts';
import { LeaseLostError, type ListingKey, logFieldsOf } from './job.ts';
import { releaseMissed } from './release.sql.ts';
import { renewLeases, rescueJobs } from './leases.sql.ts';
import type { Slots } from './slots.ts';

const RESCUE_INTERVAL_MS = 30_000;

/**
 * How soon after a failure leases are renewed again: a connection that hangs has taken half of a lease by the
 * time it is given up, and the other half is for those that come after it.
 */
const RENEW_RETRY_MS = 1000;

/** What a process knows of outages of the database: while one goes on, nobody can renew a lease. */
export type Outages = {
  /** Notes an error that was one. */
  note(error: unknown): void;
  /** Whether there was one since it was asked last. */
  take(): boolean;
};

/** Makes what renewals of leases and the search for lost jobs know of outages, both of one process. */
export function createOutages(): Outages {
  let noted = false;
  return {
    note(error) {
      noted ||= isDatabaseOutage(error);
    },
    take() {
      const was = noted;
      noted = false;
      return was;
    },
  };
}

/**
 * Renews the leases of the jobs in progress, three times a lease, notes how far they have come, and ends
 * the work on lost ones.
 */
export function keepLeases(
  deps: {
    db: Kysely<Tables>;
    slots: Slots;
    log: Logger;
    leaseMs: number;
    /** Told of renewals that failed. */
    outages?: Outages;
  },
  signal: AbortSignal,
): Promise<void> {
  const { db, slots, log, leaseMs, outages } = deps;
  const renew = async () => {
    const current = slots.all();
    if (current.length === 0) return;
    const jobs = current.map(({ job: { rawId, attempt }, stages, cost }) => ({
      rawId,
      attempt,
      stages,
      usage: cost.usage(),
    }));
    const held = await retryConflicts(() => renewLeases(db, jobs, leaseMs));
    const ids = new Set(held.map((fence) => `${fence.rawId}/${fence.attempt}`));
    for (const { job, controller } of current) {
      if (!ids.has(`${job.rawId}/${job.attempt}`)) controller.abort(new LeaseLostError(job));
    }
  };
  return repeat(leaseMs / 3, renew, {
    signal,
    retryMs: RENEW_RETRY_MS,
    onError: (error) => {
      outages?.note(error);
      log.warn({ err: error }, 'leases could not be renewed');
    },
  });
}

/** How often lost jobs are looked for: twice a lease, but at least every 30 s. */
export function rescueIntervalMs(leaseMs: number): number {
  return Math.min(RESCUE_INTERVAL_MS, leaseMs / 2);
}

/**
 * Gives jobs of workers that are gone back to the queue: at the start, and then so often that with the default
 * lease none is stuck for longer than 90 s. Each time it also lets go what waits for nothing any more, because a
 * process was killed between an end and its word; in a backlog it takes many looks to come to all.
 *
 * Where the database was away, nobody could renew a lease: the first look afterwards takes none for lost, and by
 * the next one those that are not have been renewed. A worker that alone is cut off loses its jobs to the others.
 */
export function rescueLostJobs(
  deps: {
    db: Kysely<Tables>;
    log: Logger;
    leaseMs: number;
    maxAttempts: number;
    outages: Outages;
    onRescued: () => void;
  },
  signal: AbortSignal,
): Promise<void> {
  const { db, log, leaseMs, maxAttempts, outages, onRescued } = deps;
  let wasAway = false;
  /** Where the look for what waits in vain stands. */
  let after: ListingKey | undefined;
  const rescue = async () => {
    // Before the look: what is noted during it is for the next one.
    wasAway ||= outages.take();
    const rescued = wasAway ? [] : await rescueJobs(db, maxAttempts);
    for (const { status, ...job } of rescued) {
      log.warn({ ...logFieldsOf(job), status }, 'the worker of a job was lost');
    }
    const { released, next } = await releaseMissed(db, after);
    after = next;
    wasAway = false;
    if (rescued.length + released > 0) onRescued();
  };
  return repeat(rescueIntervalMs(leaseMs), rescue, {
    signal,
    onError: (error) => {
      outages.note(error);
      log.warn({ err: error }, 'lost jobs could not be looked for');
    },
  });
}
