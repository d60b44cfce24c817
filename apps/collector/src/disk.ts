import { statfs } from 'node:fs/promises';
import type { Logger } from '@oselya/kit';
import { Gauge, type Registry } from 'prom-client';
import { createMeasure } from './metrics.ts';
import { problem } from './errors.ts';
import { MEBIBYTE } from './schemas.ts';

/** The disk of DATA_DIR. Sizes are in bytes. */
export type Disk = {
  /** What must stay free. */
  readonly minFreeBytes: number;
  /** Returns what a process without special rights may still write. */
  freeBytes(): Promise<number>;
  /**
   * Checks that there is room for so many bytes beside the minimum.
   * @throws ProblemError `disk_low`.
   */
  need(bytes?: number): Promise<void>;
};

/**
 * Creates the disk of a folder. Contract 1, MIN_FREE_DISK_MB.
 * @param options.freeBytes Replaces the operating system's answer in tests.
 */
export function createDisk(options: {
  folder: string;
  minFreeMb: number;
  freeBytes?: () => Promise<number>;
}): Disk {
  const { folder, minFreeMb } = options;
  const readFreeBytes = async () => {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  };
  const { freeBytes = readFreeBytes } = options;
  const minFreeBytes = minFreeMb * MEBIBYTE;
  return {
    minFreeBytes,
    freeBytes,
    async need(bytes = 0) {
      if ((await freeBytes()) - bytes < minFreeBytes) throw problem('disk_low');
    },
  };
}

/** Tells whether an error, or its cause, is a full disk. */
export function isDiskLow(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const isLow = 'code' in error && (error.code === 'disk_low' || error.code === 'ENOSPC');
  return isLow || isDiskLow(error.cause);
}

/**
 * Creates the gate that keeps a worker from claiming jobs while the disk is low. It logs when that begins and ends.
 * @returns Resolves to whether there is room.
 */
export function createDiskGate(
  disk: Pick<Disk, 'freeBytes' | 'minFreeBytes'>,
  log: Pick<Logger, 'warn' | 'info'>,
): () => Promise<boolean> {
  let wasLow = false;
  return async () => {
    const isLow = (await disk.freeBytes()) < disk.minFreeBytes;
    if (isLow && !wasLow) log.warn('too little disk is free: nothing is claimed');
    if (!isLow && wasLow) log.info('there is room on the disk again');
    wasLow = isLow;
    return !isLow;
  };
}

/**
 * Registers the gauges of the disk's free room and of the minimum. Contract 1, MIN_FREE_DISK_MB.
 * @param onError Called when the folder does not answer; the other metrics are served all the same.
 */
export function registerDiskMetrics(
  registry: Registry,
  { disk, onError }: { disk: Disk; onError: (error: unknown) => void },
): void {
  const free = new Gauge({
    name: 'collector_disk_free_bytes',
    help: 'What may still be written to the disk of DATA_DIR.',
    registers: [registry],
    collect: createMeasure({
      read: () => disk.freeBytes(),
      show: (bytes) => free.set(bytes),
      forget: () => free.remove(),
      onError,
    }),
  });
  new Gauge({
    name: 'collector_disk_min_free_bytes',
    help: 'MIN_FREE_DISK_MB: with less than this nothing is processed, and /health is down.',
    registers: [registry],
  }).set(disk.minFreeBytes);
}
