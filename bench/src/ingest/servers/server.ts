import { answerParent } from '../../process/child.ts';
import { cpuMs } from '../../process/resources.ts';

/** Database of a server, and its number of connections. */
export type Settings = { databaseUrl: string; poolSize: number };

/** A server that is measured. */
export type Served = { url: string; countStored: () => Promise<number> };

/** The questions that every server's process answers. */
export type IngestServer = ReturnType<typeof methodsOf>;

/** Makes this process a server that is started and watched by its parent. */
export function serveIngest(start: (settings: Settings) => Promise<Served>): void {
  answerParent(methodsOf(start));
}

function methodsOf(start: (settings: Settings) => Promise<Served>) {
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
