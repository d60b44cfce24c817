import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { DIMENSIONS } from './database.ts';

const COLLECTOR = join(import.meta.dirname, 'collector-process.ts');

export type CollectorProcess = {
  url: string;
  /** Ends when the process is gone. Whoever has ended already is killed no more. */
  kill: () => Promise<void>;
};

/**
 * Starts a collector in a process of its own, to be killed. It ends with this process at the latest.
 * @param env Beside the address, the data folder and the database that tests give it.
 * @throws Where it does not start.
 */
export async function forkCollector(env: Record<string, string>): Promise<CollectorProcess> {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const child = fork(COLLECTOR, {
    env: {
      PATH,
      NODE_COMPILE_CACHE,
      COLLECTOR_PORT: '0',
      EMBEDDING_DIMENSIONS: String(DIMENSIONS),
      MIN_FREE_DISK_MB: '0',
      LOG_LEVEL: 'silent',
      ...env,
    },
  });
  const ended = once(child, 'exit');
  const first: unknown[] = await Promise.race([once(child, 'message'), ended]);
  const [url] = first;
  if (typeof url !== 'string') throw new Error(`The collector did not start: ${String(url)}`);
  return {
    url,
    async kill() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}
