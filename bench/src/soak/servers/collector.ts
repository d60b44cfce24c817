import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type Running, start as startCollector } from '@oselya/collector';
import { answerParent } from '../../process/child.ts';

/** What a process holds. */
export type Holdings = {
  /** Memory, in MiB; the heap is what is left after all garbage is collected. */
  rssMiB: number;
  heapMiB: number;
  /** Open files and connections. */
  descriptors: number;
  /** Files of uploads and downloads that are in progress, or were forgotten. */
  temporaryFiles: number;
};

const MIB = 2 ** 20;

// The one way to ask for a collection in a process that was not started for it.
setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

let running: Running | undefined;
let incoming = '';

const methods = {
  /** As `oselya collector` starts it, API and worker in one. Gives its address. */
  async start(env: Record<string, string>): Promise<string> {
    incoming = join(env['DATA_DIR'] ?? '', 'images', 'incoming');
    running = await startCollector({ ...env, COLLECTOR_PORT: '0' });
    return running.url;
  },
  async holdings(): Promise<Holdings> {
    collectGarbage();
    const { rss, heapUsed } = process.memoryUsage();
    const descriptors = (await readdir('/proc/self/fd')).length;
    return { rssMiB: rss / MIB, heapMiB: heapUsed / MIB, descriptors, ...(await inProgress()) };
  },
  stop: () => running?.close(),
};

/** In the process's folder among the temporary ones, beside the lock on it. */
async function inProgress(): Promise<{ temporaryFiles: number }> {
  const entries = await readdir(incoming, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && !entry.name.startsWith('lock'));
  return { temporaryFiles: files.length };
}

export type CollectorProcess = typeof methods;
answerParent(methods);
