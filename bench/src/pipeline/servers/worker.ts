import { migrateDatabase, startWorker } from '@oselya/collector';
import { serveMethods } from '../../process/child.ts';

/** Methods of a worker process. */
export type WorkerProcess = {
  migrate: (env: Record<string, string>) => Promise<void>;
  /** Runs jobs until `stop`. */
  start: (env: Record<string, string>) => Promise<void>;
  stop: () => Promise<void>;
};

let runningWorker: Awaited<ReturnType<typeof startWorker>> | undefined;

serveMethods({
  async migrate(env) {
    await migrateDatabase(env);
  },
  async start(env) {
    runningWorker = await startWorker(env);
  },
  async stop() {
    await runningWorker?.close();
    runningWorker = undefined;
  },
} satisfies WorkerProcess);
