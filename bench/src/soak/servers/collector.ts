import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type RunningCollector, start as startCollector } from '@oselya/collector';
import { serveMethods } from '../../process/child.ts';
import { memory } from '../../process/server.ts';

/** Resource usage of a process. */
export type ProcessResources = {
  /** Resident memory of the process after garbage collection. */
  rssMiB: number;
  /** Used heap and external buffers after garbage collection. */
  heapMiB: number;
  /** Number of open files and connections. */
  descriptors: number;
  /** Number of temporary files of uploads and downloads, in progress or leaked. */
  temporaryFiles: number;
};

const MEBIBYTE = 2 ** 20;

let runningCollector: RunningCollector | undefined;
let incomingFolder = '';

const methods = {
  /** Starts the API and the worker as `oselya collector` does. Returns the URL. */
  async start(env: Record<string, string>): Promise<string> {
    incomingFolder = join(env['DATA_DIR'] ?? '', 'images', 'incoming');
    runningCollector = await startCollector({ ...env, COLLECTOR_PORT: '0' });
    return runningCollector.url;
  },
  async resources(): Promise<ProcessResources> {
    const { rss, heap } = memory();
    const descriptors = (await readdir('/proc/self/fd')).length;
    return {
      rssMiB: rss / MEBIBYTE,
      heapMiB: heap / MEBIBYTE,
      descriptors,
      temporaryFiles: await countTemporaryFiles(),
    };
  },
  stop: () => runningCollector?.close(),
};

/** Returns the number of temporary files, excluding the lock files of their folders. */
async function countTemporaryFiles(): Promise<number> {
  const entries = await readdir(incomingFolder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile() && !entry.name.startsWith('lock')).length;
}

export type CollectorProcess = typeof methods;
serveMethods(methods);
