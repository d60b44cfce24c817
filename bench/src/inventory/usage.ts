// Loaded into a command before its own code (node --import): writes what the process used, when it ends,
// into the file that OSELYA_BENCH_USAGE names.
import { writeFileSync } from 'node:fs';
import { peakBytes } from '../../../packages/inventory/test/support/peak-bytes.ts';

/** What a process used in all. */
export type Usage = {
  cpuMs: number;
  /** The memory at its highest, in millions of bytes. */
  peakMB: number;
};

const file = process.env['OSELYA_BENCH_USAGE'];
if (file !== undefined) {
  process.on('exit', () => {
    const { userCPUTime, systemCPUTime } = process.resourceUsage();
    const peakMB = peakBytes() / 1e6;
    const usage: Usage = { cpuMs: (userCPUTime + systemCPUTime) / 1000, peakMB };
    writeFileSync(file, JSON.stringify(usage));
  });
}
