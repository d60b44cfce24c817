import { statfs } from 'node:fs/promises';
import { problem } from '../errors.ts';
import { MEBIBYTE } from '../schemas.ts';

/** The disk of DATA_DIR. Sizes are in bytes. */
export type Disk = {
  /** What must stay free. */
  readonly minFreeBytes: number;
  /** What a process without special rights may still write. */
  freeBytes(): Promise<number>;
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
  const minFreeBytes = minFreeMb * MEBIBYTE;
  return {
    minFreeBytes,
    freeBytes,
    async need(bytes = 0) {
      if ((await freeBytes()) - bytes < minFreeBytes) throw problem('disk_low');
    },
  };
}

async function readFreeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

/** Whether an error, or what lies beneath it, says that the disk is full or too little of it is free. */
export function isDiskLow(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const isLow = 'code' in error && (error.code === 'disk_low' || error.code === 'ENOSPC');
  return isLow || isDiskLow(error.cause);
}
