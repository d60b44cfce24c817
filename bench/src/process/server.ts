import { answerParent } from './child.ts';
import { cpuMs, memory } from './resources.ts';

/** The questions that the process of a server answers. */
export type Server<Settings> = {
  /** Starts to serve and gives the address. */
  start: (settings: Settings) => Promise<string>;
  cpuMs: typeof cpuMs;
  memory: typeof memory;
};

/** Makes this process a server that is started and watched by its parent. */
export function serve(start: Server<never>['start']): void {
  answerParent({ start, cpuMs, memory } satisfies Server<never>);
}
