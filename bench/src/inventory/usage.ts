// Loaded into a command before its own code (node --import): writes what the process used, when it ends,
// into the file that OSELYA_BENCH_USAGE names.
import { readFileSync, writeFileSync } from 'node:fs';

/** Resources that a process used in total. */
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

/** Returns the peak memory. `resourceUsage` may report the parent process (getrusage(2)); Linux has the own figure. */
function peakBytes(): number {
  if (process.platform !== 'linux') return 1024 * process.resourceUsage().maxRSS;
  const [, kilobytes] =
    /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  return 1024 * Number(kilobytes);
}
