import { migrateDatabase, startWorker } from '@oselya/collector';
import { serveMethods } from '../../process/child.ts';

/** Methods of a worker process. */
export type WorkerProcess = {
  migrate: (env: Record<string, string>) => Promise<void>;
  /** Runs jobs until `stop`. */
  start: (env: Record<string, string>) => Promise<void>;
  stop: () => Promise<void>;
};

let running: Awaited<ReturnType<typeof startWorker>> | undefined;

serveMethods({
  async migrate(env) {
    await migrateDatabase(env);
  },
  async start(env) {
    running = await startWorker(env);
  },
  async stop() {
    await running?.close();
    running = undefined;
  },
} satisfies WorkerProcess);
