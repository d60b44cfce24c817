// Loaded into a command before its own code (node --import): writes what the process used, when it ends,
// into the file that OSELYA_BENCH_USAGE names.
import { writeFileSync } from 'node:fs';

/** What a process used in all. */
export type Usage = { cpuMs: number; peakMiB: number };

const file = process.env['OSELYA_BENCH_USAGE'];
if (file !== undefined) {
  process.on('exit', () => {
    const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
    const usage: Usage = { cpuMs: (userCPUTime + systemCPUTime) / 1000, peakMiB: maxRSS / 1024 };
    writeFileSync(file, JSON.stringify(usage));
  });
}
