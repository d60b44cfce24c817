import { setTimeout as sleep } from 'node:timers/promises';
import { type RemoteProcess, startProcess } from '../process/parent.ts';
import { BenchError } from '../bench-error.ts';
import type { Context } from '../suite.ts';
import type { Batching, QueueProcess } from './servers/queue.ts';

/** Measured queue and the module of its process. */
export type Variant = { name: string; module: URL; batching?: Batching };

/** Number of concurrent jobs of every queue, as in graphile-worker's own measurements. */
export const CONCURRENCY = 24;

/** Database pool size of every queue: one connection for each concurrent job, and eight more. */
const POOL_SIZE = CONCURRENCY + 8;

const WAIT_MS = 60_000;

const moduleUrl = (file: string): URL => new URL(`servers/${file}.ts`, import.meta.url);

export const collector: Variant = { name: 'collector', module: moduleUrl('collector') };
export const graphileWorker: Variant = {
  name: 'graphile-worker, defaults',
  module: moduleUrl('graphile-worker'),
};
/** Settings recommended as a start by graphile-worker's documentation: one job more than the concurrency. */
export const graphileWorkerBatching: Variant = {
  name: 'graphile-worker, batching',
  module: moduleUrl('graphile-worker'),
  batching: { localQueueSize: CONCURRENCY + 1, completeJobBatchDelayMs: 0 },
};
/** Settings from graphile-worker's performance page. */
export const graphileWorkerLargeBatches: Variant = {
  name: 'graphile-worker, batches of 500',
  module: moduleUrl('graphile-worker'),
  batching: { localQueueSize: 500, completeJobBatchDelayMs: 0 },
};
export const pgBoss: Variant = { name: 'pg-boss', module: moduleUrl('pg-boss') };

export const variants: readonly Variant[] = [
  collector,
  graphileWorker,
  graphileWorkerBatching,
  pgBoss,
  graphileWorkerLargeBatches,
];

/** Starts a queue process, which `scope` stops, and connects the queue to its database. */
export async function startQueue(
  scope: AsyncDisposableStack,
  { module, batching }: Variant,
  { databaseUrl, signal }: { databaseUrl: string } & Pick<Context, 'signal'>,
): Promise<RemoteProcess<QueueProcess>> {
  const queue = scope.use(startProcess<QueueProcess>(module, signal));
  await queue.call('open', { databaseUrl, poolSize: POOL_SIZE, batching });
  return queue;
}

/**
 * Waits until a condition returns a value other than false, and returns the value.
 * @throws BenchError after a minute.
 */
export async function waitUntil<Result>(
  description: string,
  condition: () => Promise<Result | false>,
): Promise<Result> {
  const deadline = Date.now() + WAIT_MS;
  for (;;) {
    const result = await condition();
    if (result !== false) return result;
    if (Date.now() > deadline)
      throw new BenchError(`timed out after a minute while waiting for ${description}`);
    await sleep(20);
  }
}
