import type { Job } from './job.ts';
import type { Slots } from './slots.ts';

/**
 * Jobs that end within milliseconds, as unchanged payloads do, would leave the slots empty while the next
 * are claimed. So as many as ended since the claim before are claimed beside those for free slots, this many
 * at most. Where jobs take longer than a claim few have ended by then, mostly one.
 */
export const MAX_PREFETCHED = 100;

/**
 * How long one of these may wait. Then the jobs before it take longer than those that had ended, and
 * another worker may have a slot for it.
 */
export const MAX_WAIT_MS = 1000;

/** Says how much is claimed ahead of a free slot, and what of it has waited in vain. */
export type Prefetch = {
  /** How many jobs to claim beside those for free slots; to be asked once a claim. */
  next(): number;
  /** Takes out those that have waited for too long; they will not be run. */
  takeLate(): Job[];
};

/** What is claimed before there is a slot for it. */
export function createPrefetch(
  slots: Pick<Slots, 'processed' | 'takeWaiting'>,
  maxWaitMs: number,
): Prefetch {
  /** How many jobs had been processed when the last claim began. */
  let before = 0;
  return {
    next() {
      const ended = slots.processed - before;
      before = slots.processed;
      return Math.min(MAX_PREFETCHED, ended);
    },
    takeLate: () => slots.takeWaiting(maxWaitMs),
  };
}
