import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type RunningCollector, start as startCollector } from '@oselya/collector';
import { serveMethods } from '../../process/child.ts';
import { memory } from '../../process/server.ts';

/** Resource usage of a process. */
export type ProcessResources = {
  /** Memory, in MiB; the heap is what is left after all garbage is collected. */
  rssMiB: number;
  heapMiB: number;
  /** Open files and connections. */
  descriptors: number;
  /** Files of uploads and downloads that are in progress, or were forgotten. */
  temporaryFiles: number;
};

const MIB = 2 ** 20;

let running: RunningCollector | undefined;
let incoming = '';

const methods = {
  /** Starts API and worker as `oselya collector` does. Returns the address. */
  async start(env: Record<string, string>): Promise<string> {
    incoming = join(env['DATA_DIR'] ?? '', 'images', 'incoming');
    running = await startCollector({ ...env, COLLECTOR_PORT: '0' });
    return running.url;
  },
  async holdings(): Promise<ProcessResources> {
    const { rss, heap } = memory();
    const descriptors = (await readdir('/proc/self/fd')).length;
    return { rssMiB: rss / MIB, heapMiB: heap / MIB, descriptors, ...(await inProgress()) };
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
serveMethods(methods);
