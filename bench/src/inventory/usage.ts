// Module to preload into a command with `node --import`. When the process exits, the module writes the resource usage
// of the process to the file named by OSELYA_BENCH_USAGE.
import { readFileSync, writeFileSync } from 'node:fs';

/** Total resource usage of a process. */
export type Usage = {
  cpuMs: number;
  /** Peak memory in millions of bytes. */
  peakMB: number;
};

const file = process.env['OSELYA_BENCH_USAGE'];
if (file !== undefined) {
  process.on('exit', () => {
    const { userCPUTime, systemCPUTime } = process.resourceUsage();
    const peakMB = readPeakBytes() / 1e6;
    const usage: Usage = { cpuMs: (userCPUTime + systemCPUTime) / 1000, peakMB };
    writeFileSync(file, JSON.stringify(usage));
  });
}

/** Returns the peak memory in bytes. On Linux, reads /proc, because `resourceUsage` may include the parent's memory. */
function readPeakBytes(): number {
  if (process.platform !== 'linux') return 1024 * process.resourceUsage().maxRSS;
  const [, kilobytes] =
    /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  return 1024 * Number(kilobytes);
}
