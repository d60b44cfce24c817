import { Gauge, type Registry } from 'prom-client';
import { createMeasure } from '../async/measure.ts';
import type { Disk } from './disk.ts';

/**
 * The room on the disk of the process, and what of it must stay free. Contract 1, MIN_FREE_DISK_MB.
 * @param onError Told where the folder does not answer: the other metrics are served all the same.
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
