import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { serveMethods } from './child.ts';

/** Methods of a server process. */
export type Server<Settings> = {
  /** Starts the server and returns its URL. */
  start: (settings: Settings) => Promise<string>;
  cpuMs: typeof cpuMs;
  memory: typeof memory;
};

/** Serves the methods of a server process to the parent. */
export function serve(start: Server<never>['start']): void {
  serveMethods({ start, cpuMs, memory } satisfies Server<never>);
}

// Enables garbage collection on demand without a command-line flag.
setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Memory sizes in bytes. */
export type Memory = { rss: number; heap: number };

/** Returns the memory of this process after garbage collection; `heap` includes external buffers. */
export function memory(): Memory {
  collectGarbage();
  const { rss, heapUsed, external } = process.memoryUsage();
  return { rss, heap: heapUsed + external };
}

/** Returns the processor time that this process has used, in milliseconds. */
export function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
