import { serveMethods } from './child.ts';
import { cpuMs, memory } from './resources.ts';

/** Methods of a server process. */
export type Server<Settings> = {
  /** Starts to serve and gives the address. */
  start: (settings: Settings) => Promise<string>;
  cpuMs: typeof cpuMs;
  memory: typeof memory;
};

/** Serves the methods of a server process to the parent. */
export function serve(start: Server<never>['start']): void {
  serveMethods({ start, cpuMs, memory } satisfies Server<never>);
}
