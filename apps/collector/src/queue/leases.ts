import { isDatabaseOutage, retryConflicts } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../database/tables.ts';
import { repeat } from '../async/repeat.ts';
import { LeaseLostError, type ListingKey, logFieldsOf } from './job.ts';
import { releaseMissed } from './release.sql.ts';
import { renewLeases, rescueJobs } from './leases.sql.ts';
import type { Slots } from './slots.ts';

const RESCUE_INTERVAL_MS = 30_000;

/**
 * Renews the leases of the jobs in progress, three times a lease, notes how far they have come, and ends
 * the work on lost ones.
 */
export function keepLeases(
  deps: { db: Kysely<Tables>; slots: Slots; log: Logger; leaseMs: number },
  signal: AbortSignal,
): Promise<void> {
  const { db, slots, log, leaseMs } = deps;
  const renew = async () => {
    const current = slots.all();
    if (current.length === 0) return;
    const jobs = current.map(({ job: { rawId, attempt }, stages }) => ({ rawId, attempt, stages }));
    const held = await retryConflicts(() => renewLeases(db, jobs, leaseMs));
    const ids = new Set(held.map((fence) => `${fence.rawId}/${fence.attempt}`));
    for (const { job, controller } of current) {
      if (!ids.has(`${job.rawId}/${job.attempt}`)) controller.abort(new LeaseLostError(job));
    }
  };
  return repeat(leaseMs / 3, renew, {
    signal,
    onError: (error) => log.warn({ err: error }, 'leases could not be renewed'),
  });
}

/** How often lost jobs are looked for: twice a lease, but at least every 30 s. */
export function rescueIntervalMs(leaseMs: number): number {
  return Math.min(RESCUE_INTERVAL_MS, leaseMs / 2);
}

/**
 * Gives jobs of workers that are gone back to the queue, and lets go what waited for one that ended
 * without a word: at the start, and then so often that with the default lease nothing stays stuck for
 * longer than 90 s. Where the database was away, nobody could renew a lease: the first look afterwards takes
 * none for lost, and by the next one those that are not have been renewed.
 */
export function rescueLostJobs(
  deps: {
    db: Kysely<Tables>;
    log: Logger;
    leaseMs: number;
    maxAttempts: number;
    onRescued: () => void;
  },
  signal: AbortSignal,
): Promise<void> {
  const { db, log, leaseMs, maxAttempts, onRescued } = deps;
  let wasAway = false;
  /** Where the look for what waits in vain stands. */
  let after: ListingKey | undefined;
  const rescue = async () => {
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
      wasAway ||= isDatabaseOutage(error);
      log.warn({ err: error }, 'lost jobs could not be looked for');
    },
  });
}
