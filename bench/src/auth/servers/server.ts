import { answerParent } from '../../process/child.ts';

/** As many connections to the database as the assistant opens, for every server. */
export const POOL_SIZE = 10;

/** Idle connections are kept as long as Fastify keeps them, so that none breaks while it is not used. */
export const KEEP_ALIVE_MS = 72_000;

/** The questions that every server's process answers. */
export type Server<Settings> = {
  /** Starts to serve and gives the address. */
  start: (settings: Settings) => Promise<string>;
  /** The processor time that the process has used, in milliseconds. */
  cpuMs: () => number;
};

/** Makes this process a server that is started and watched by its parent. */
export function serve(start: Server<never>['start']): void {
  answerParent({
    start,
    cpuMs() {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1000;
    },
  } satisfies Server<never>);
}
