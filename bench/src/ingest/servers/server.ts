import { serveMethods } from '../../process/child.ts';
import { cpuMs } from '../../process/resources.ts';

/** Database of a server, and its number of connections. */
export type Settings = { databaseUrl: string; poolSize: number };

/** Measured server. */
export type Served = { url: string; countStored: () => Promise<number> };

/** Methods of a server process. */
export type IngestServer = ReturnType<typeof createMethods>;

/** Serves the methods of a server process to the parent. */
export function serveIngest(start: (settings: Settings) => Promise<Served>): void {
  serveMethods(createMethods(start));
}

function createMethods(start: (settings: Settings) => Promise<Served>) {
  let served: Served;
  return {
    async start(settings: Settings): Promise<string> {
      served = await start(settings);
      return served.url;
    },
    countStored: () => served.countStored(),
    cpuMs,
  };
}
