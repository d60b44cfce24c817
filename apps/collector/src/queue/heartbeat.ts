import { isDatabaseOutage } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { releaseMissed } from './claim.ts';
import { type ListingKey, getJobLogFields } from './job-types.ts';
import { rescueJobs } from './job-writes.ts';

/**
 * Creates the heartbeat of a worker, which renews its leases, rescues the jobs of lost workers, and releases payloads
 * whose release a killed process missed.
 * @param deps.onReleased Called when there is something to claim again.
 */
export function createHeartbeat(deps: {
  db: Kysely<Tables>;
  log: Logger;
  maxAttempts: number;
  renew: () => Promise<void>;
  onReleased: () => void;
}): () => Promise<void> {
  const { db, log, maxAttempts, renew, onReleased } = deps;
  let wasAway = false;
  let sweptTo: ListingKey | undefined;
  return async () => {
    try {
      await renew();
      // No worker could renew its leases during an outage, so the first look after it rescues nothing.
      const rescued = wasAway ? [] : await rescueJobs(db, maxAttempts);
      wasAway = false;
      for (const { status, ...job } of rescued) {
        log.warn({ ...getJobLogFields(job), status }, 'the worker of a job was lost');
      }
      const { released, next } = await releaseMissed(db, sweptTo);
      sweptTo = next;
      if (rescued.length + released > 0) onReleased();
    } catch (error) {
      wasAway ||= isDatabaseOutage(error);
      throw error;
    }
  };
}
