import { statfs } from 'node:fs/promises';
import { problem } from './errors.ts';
import type { ProcessJob } from './queue/run-job.ts';

const MEBIBYTE = 1024 * 1024;

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
 * Puts jobs back while the disk is low, before anything was done for them: nothing is lost, no attempt is
 * spent, and the model is not asked for listings whose pictures could not be stored. Space that is freed
 * is noticed at the next poll.
 */
export function postponeWhileDiskIsLow(disk: Disk, process: ProcessJob): ProcessJob {
  return async (job, options) => {
    try {
      await disk.need();
    } catch (error) {
      if (isDiskLow(error)) return { status: 'postponed' };
      throw error;
    }
    return process(job, options);
  };
}
