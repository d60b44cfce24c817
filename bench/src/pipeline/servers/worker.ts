import { migrateDatabase, startWorker } from '@oselya/collector';
import { answerParent } from '../../process/child.ts';

/** The questions that a worker's process answers. */
export type WorkerProcess = {
  migrate: (env: Record<string, string>) => Promise<void>;
  /** Takes jobs off the queue until it is stopped. */
  start: (env: Record<string, string>) => Promise<void>;
  stop: () => Promise<void>;
};

let running: Awaited<ReturnType<typeof startWorker>> | undefined;

answerParent({
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
