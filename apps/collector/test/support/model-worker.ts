import type { TestDatabase } from '@oselya/db/testing';
import { createModelClient, type ModelClient, type ModelClientOptions } from '@oselya/model';
import type { Kysely } from 'kysely';
import { Registry } from 'prom-client';
import type { Tables } from '../../src/tables.ts';
import { createMetrics } from '../../src/metrics.ts';
import { createPipeline, type PipelineDeps } from '../../src/pipeline/pipeline.ts';
import { startWorker } from '../../src/queue/worker.ts';
import { DIMENSIONS } from './database.ts';
import { type Places, untilNothingIsLeft } from './nothing-left.ts';
import { log, noImages } from './pipeline.ts';

const TIMEOUT_MS = 10_000;

/** The mock, or a client of a model server, whose waits are some milliseconds. */
export function openModel(
  url: string | undefined,
  options: Partial<ModelClientOptions> = {},
): ModelClient {
  return createModelClient({
    mode: url === undefined ? 'mock' : 'openai',
    baseUrl: url,
    chat: 'chat',
    embedding: 'embedding',
    timeoutMs: TIMEOUT_MS,
    embeddingDimensions: DIMENSIONS,
    retry: { initialDelayMs: 1, maxDelayMs: 5 },
    breaker: { halfOpenAfterMs: 30 },
    ...options,
  });
}

/**
 * A worker of this process, which takes jobs off the queue through the pipeline, and the model that it asks.
 * @param places What it may leave something in, beside the database: looked at when it has ended.
 */
export function startModelWorker({
  database,
  model,
  modelTimeoutMs = TIMEOUT_MS,
  images = noImages,
  slots = 4,
  retryMs = 100,
  ...places
}: {
  database: TestDatabase<Tables>;
  model: ModelClient;
  modelTimeoutMs?: number | undefined;
  images?: PipelineDeps['images'];
  slots?: number;
  /** How long a job waits on which the server failed. */
  retryMs?: number;
} & Pick<Places, 'servers' | 'folder'>) {
  const { db } = database;
  const deps = { db, model, images, metrics: createMetrics(new Registry()), log };
  const worker = startWorker({
    ...deps,
    process: createPipeline({ ...deps, modelTimeoutMs, retryMs }),
    breaker: model.breaker,
    slots,
    leaseMs: 60_000,
    maxAttempts: 3,
    pollMs: 10,
  });
  const dispose = async (): Promise<void> => {
    await worker.stop({ timeoutMs: 5000 });
    await model.close();
    await untilNothingIsLeft({ database, ...places });
  };
  return { model, worker, [Symbol.asyncDispose]: dispose };
}

/** How many payloads there are of each status. */
export async function countByStatus(
  db: Kysely<Tables>,
): Promise<Record<'pending' | 'completed' | 'failed', number>> {
  const rows = await db
    .selectFrom('raw_data')
    .select(['status', (eb) => eb.fn.countAll<number>().as('n')])
    .groupBy('status')
    .execute();
  const counted = Object.fromEntries(rows.map(({ status, n }) => [status, n]));
  return { pending: 0, completed: 0, failed: 0, ...counted };
}

/** What the requests to the model were, as the payloads have them counted. */
export async function sumUsage(
  db: Kysely<Tables>,
): Promise<{ calls: number; inputTokens: number; outputTokens: number }> {
  const raws = await db.selectFrom('raw_data').select('model_usage').execute();
  const sum = (key: 'calls' | 'input_tokens' | 'output_tokens') =>
    raws.reduce((total, { model_usage: usage }) => total + (usage?.[key] ?? 0), 0);
  return {
    calls: sum('calls'),
    inputTokens: sum('input_tokens'),
    outputTokens: sum('output_tokens'),
  };
}
