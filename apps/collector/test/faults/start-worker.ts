import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { atEnd } from '@oselya/testing';
import type { WorkerSettings } from './worker-process.ts';

/** Where what Node makes of the worker's source is kept: each start takes a fifth less of a processor. */
const cache = await mkdtemp(join(tmpdir(), 'oselya-compiled-'));
atEnd(() => rm(cache, { recursive: true, force: true }));

const WORKER = join(import.meta.dirname, 'worker-process.ts');

export type WorkerProcess = ReturnType<typeof startWorkerProcess>;

/** Starts a worker that is to be killed: `works` when it does, `ended` when it is gone. */
export function startWorkerProcess(settings: WorkerSettings) {
  const child = fork(WORKER, [JSON.stringify(settings)], {
    env: { ...process.env, NODE_COMPILE_CACHE: cache },
  });
  return { child, works: once(child, 'message'), ended: once(child, 'exit') };
}
