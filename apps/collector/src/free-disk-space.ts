import { statfs } from 'node:fs/promises';
import type { Logger } from '@oselya/kit';
import { Gauge, type Registry } from 'prom-client';
import { problem } from './errors.ts';
import { createGaugeCollector } from './metrics.ts';
import { MEBIBYTE } from './schemas.ts';

/** The disk that holds DATA_DIR. */
export type Disk = {
  /** Number of bytes that must stay free. */
  readonly minFreeBytes: number;
  /** Returns the free bytes that an unprivileged process can use. */
  readFreeBytes(): Promise<number>;
  /**
   * Checks that the minimum stays free after writing `bytes`.
   * @throws ProblemError `disk_low`.
   */
  requireFree(bytes?: number): Promise<void>;
};

/**
 * Creates the `Disk` that holds a folder. Contract 1, MIN_FREE_DISK_MB.
 * @param options.readFreeBytes Replaces the system call in tests.
 */
export function createDisk(options: {
  folder: string;
  minFreeMb: number;
  readFreeBytes?: () => Promise<number>;
}): Disk {
  const minFreeBytes = options.minFreeMb * MEBIBYTE;
  const {
    readFreeBytes = async () => {
      const { bavail, bsize } = await statfs(options.folder);
      return bavail * bsize;
    },
  } = options;
  return {
    minFreeBytes,
    readFreeBytes,
    async requireFree(bytes = 0) {
      if ((await readFreeBytes()) - bytes < minFreeBytes) throw problem('disk_low');
    },
  };
}

/** Returns whether an error, or one of its causes, means that too little disk space is free. */
export function isDiskLow(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const isLow = 'code' in error && (error.code === 'disk_low' || error.code === 'ENOSPC');
  return isLow || isDiskLow(error.cause);
}

/**
 * Creates a check that stops a worker from claiming jobs while free space is low. The check logs each change of state.
 * @returns A function that resolves to true if there is enough free space.
 */
export function createDiskGate(
  disk: Pick<Disk, 'readFreeBytes' | 'minFreeBytes'>,
  log: Pick<Logger, 'warn' | 'info'>,
): () => Promise<boolean> {
  let wasLow = false;
  return async () => {
    const isLow = (await disk.readFreeBytes()) < disk.minFreeBytes;
    if (isLow && !wasLow) log.warn('too little disk space is free: no job is claimed');
    if (!isLow && wasLow) log.info('enough disk space is free again');
    wasLow = isLow;
    return !isLow;
  };
}

/**
 * Registers the gauges for the free disk space and its minimum.
 * @param onError Called if the free space cannot be read. The other metrics are still served.
 */
export function registerDiskMetrics(
  registry: Registry,
  { disk, onError }: { disk: Disk; onError: (error: unknown) => void },
): void {
  const freeBytesGauge = new Gauge({
    name: 'collector_disk_free_bytes',
    help: 'Free bytes on the disk of DATA_DIR.',
    registers: [registry],
    collect: createGaugeCollector({
      read: () => disk.readFreeBytes(),
      update: (bytes) => freeBytesGauge.set(bytes),
      reset: () => freeBytesGauge.remove(),
      onError,
    }),
  });
  new Gauge({
    name: 'collector_disk_min_free_bytes',
    help: 'MIN_FREE_DISK_MB in bytes. With less free space, no payload is claimed, and /health is down.',
    registers: [registry],
  }).set(disk.minFreeBytes);
}
