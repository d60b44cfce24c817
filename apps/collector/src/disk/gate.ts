import type { Logger } from '@oselya/kit';
import type { Disk } from './disk.ts';

/**
 * Lets no job be taken off the queue while the disk is low: nothing is lost, no attempt is spent, and the
 * model is not asked for listings whose pictures could not be stored. It tells the log when that begins
 * and ends.
 * @returns Whether there is room.
 */
export function createDiskGate(
  disk: Pick<Disk, 'freeBytes' | 'minFreeBytes'>,
  log: Pick<Logger, 'warn' | 'info'>,
): () => Promise<boolean> {
  let wasLow = false;
  return async () => {
    const isLow = (await disk.freeBytes()) < disk.minFreeBytes;
    if (isLow && !wasLow) log.warn('too little disk is free: nothing is taken off the queue');
    if (!isLow && wasLow) log.info('there is room on the disk again');
    wasLow = isLow;
    return !isLow;
  };
}
