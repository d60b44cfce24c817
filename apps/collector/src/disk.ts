import { statfs } from 'node:fs/promises';
import type { Logger } from '@oselya/kit';
import { problem } from './errors.ts';
import { MEBIBYTE } from './limits.ts';
import type { Gate } from './queue/gate.ts';

export type Disk = {
  /**
   * Looks whether there is room for so many bytes beside the minimum that stays free.
   * @throws ProblemError `disk_low`.
   */
  need(bytes?: number): Promise<void>;
};

/**
 * The room on the disk of a folder. Contract 1, MIN_FREE_DISK_MB.
 * @param freeBytes Another way to know it, for tests.
 */
export function createDisk(options: {
  folder: string;
  minFreeMb: number;
  freeBytes?: () => Promise<number>;
}): Disk {
  const { folder, minFreeMb, freeBytes = () => readFreeBytes(folder) } = options;
  return {
    async need(bytes = 0) {
      if ((await freeBytes()) - bytes < minFreeMb * MEBIBYTE) throw problem('disk_low');
    },
  };
}

/** What a process without special rights may still write to the disk of a folder. */
export async function readFreeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

/** Whether an error, or what lies beneath it, says that the disk is full or too little of it is free. */
export function isDiskLow(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const isLow = 'code' in error && (error.code === 'disk_low' || error.code === 'ENOSPC');
  return isLow || isDiskLow(error.cause);
}

/**
 * Lets no job be taken off the queue while the disk is low: nothing is lost, no attempt is spent, and the
 * model is not asked for listings whose pictures could not be stored. It tells the log when that begins
 * and ends.
 */
export function diskGate(disk: Disk, log: Pick<Logger, 'warn' | 'info'>): Gate {
  let wasLow = false;
  return async () => {
    const isLow = await hasTooLittle(disk);
    if (isLow && !wasLow) log.warn('too little disk is free: nothing is taken off the queue');
    if (!isLow && wasLow) log.info('there is room on the disk again');
    wasLow = isLow;
    return !isLow;
  };
}

async function hasTooLittle(disk: Disk): Promise<boolean> {
  try {
    await disk.need();
    return false;
  } catch (error) {
    if (isDiskLow(error)) return true;
    throw error;
  }
}
