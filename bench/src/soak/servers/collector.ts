import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type Running, start as startCollector } from '@oselya/collector';
import { answerParent } from '../../process/child.ts';

/** What a process has of memory, in MiB; the heap is what is left after all garbage is collected. */
export type Memory = { rssMiB: number; heapMiB: number };

const MIB = 2 ** 20;

// The one way to ask for a collection in a process that was not started for it.
setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

let running: Running | undefined;

const methods = {
  /** As `oselya collector` starts it, API and worker in one. Gives its address. */
  async start(env: Record<string, string>): Promise<string> {
    running = await startCollector({ ...env, COLLECTOR_PORT: '0' });
    return running.url;
  },
  memory(): Memory {
    collectGarbage();
    const { rss, heapUsed } = process.memoryUsage();
    return { rssMiB: rss / MIB, heapMiB: heapUsed / MIB };
  },
  stop: () => running?.close(),
};
export type CollectorProcess = typeof methods;
answerParent(methods);
