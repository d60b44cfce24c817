import { readFileSync } from 'node:fs';

/**
 * The most memory that this process had at once, in bytes. `resourceUsage` tells the figure of the process that
 * started this one where that is greater (getrusage(2), ru_maxrss goes through execve); Linux has one of its own.
 */
export function peakBytes(): number {
  if (process.platform !== 'linux') return 1024 * process.resourceUsage().maxRSS;
  const [, kilobytes] =
    /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  return 1024 * Number(kilobytes);
}
