import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { WorkerSettings } from './worker-process.ts';

const WORKER = join(import.meta.dirname, 'worker-process.ts');

export type WorkerProcess = ReturnType<typeof startWorkerProcess>;

/** Starts a worker that is to be killed: `works` when it does, `ended` when it is gone. */
export function startWorkerProcess(settings: WorkerSettings) {
  const child = spawn(process.execPath, [WORKER, JSON.stringify(settings)], {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
  });
  return { child, works: once(child, 'message'), ended: once(child, 'exit') };
}
