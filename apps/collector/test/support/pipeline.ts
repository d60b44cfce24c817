import assert from 'node:assert/strict';
import type { TestDatabase } from '@oselya/db/testing';
import { createLogger } from '@oselya/kit';
import { createModelClient, type ModelClient } from '@oselya/model';
import { Registry } from 'prom-client';
import type { Tables } from '../../src/tables.ts';
import type { Payload } from '../../src/ingest/payload.ts';
import { createMetrics } from '../../src/metrics.ts';
import { createEmbeddingBatches } from '../../src/embeddings/batches.ts';
import { createModelCost } from '../../src/model.ts';
import type {
  Context,
  JobInput,
  StageDeps,
  StageName,
  StageResult,
} from '../../src/pipeline/context.ts';
import {
  createJobModel,
  createPipeline,
  createStages,
  type PipelineDeps,
} from '../../src/pipeline/pipeline.ts';
import { claimJobs } from '../../src/queue/claim.ts';
import type { JobOutcome } from '../../src/queue/job.ts';
import { createJobRunner } from '../../src/queue/run-jobs.ts';
import { DIMENSIONS, rawRecord, store } from './database.ts';

export const log = createLogger({ level: 'silent', service: 'test' });

/** The mock model, with a count of its calls. */
export function countedModel(): PipelineDeps['model'] & { calls: { chat: number; embed: number } } {
  const client = createModelClient({
    mode: 'mock',
    timeoutMs: 10_000,
    embeddingDimensions: DIMENSIONS,
  });
  const calls = { chat: 0, embed: 0 };
  return {
    calls,
    chatModel: client.chatModel,
    embeddingModel: client.embeddingModel,
    generateObject: ((request) => {
      calls.chat += 1;
      return client.generateObject(request);
    }) satisfies ModelClient['generateObject'],
    embed: (texts, options) => {
      calls.embed += 1;
      return client.embed(texts, options);
    },
  };
}

/** Listings without pictures. */
export const noImages: PipelineDeps['images'] = {
  processRemote: () => Promise.resolve([]),
  processUploaded: () => Promise.resolve([]),
  describeAll: () => Promise.resolve(0),
};

/** Takes payloads through the pipeline, one after another, as a worker with one slot does. */
export function createHarness(
  db: TestDatabase<Tables>['db'],
  overrides: Partial<PipelineDeps> = {},
) {
  const metrics = createMetrics(new Registry());
  const deps: PipelineDeps = {
    db,
    model: countedModel(),
    images: noImages,
    log,
    ...overrides,
  };
  const runner = createJobRunner<JobInput>({
    db,
    process: createPipeline({ ...deps, metrics, modelTimeoutMs: 10_000, retryMs: 0 }),
    metrics,
    log,
    leaseMs: 60_000,
  });

  /** Claims the next job and runs it, also one that is to wait. */
  async function runNext(input: JobInput = {}): Promise<JobOutcome> {
    await db.updateTable('raw_data').set({ retry_at: null }).execute();
    const [job] = await claimJobs(db, { worker: 'test', leaseMs: 60_000, count: 1 });
    assert.ok(job, 'there is a job to claim');
    return runner.run(job, { input });
  }

  /** Stores a payload, runs it, and gives its record. */
  async function process(payload: Payload) {
    const rawId = await store(db, payload);
    await runNext();
    return rawRecord(db, rawId);
  }

  return { runNext, process };
}

/** Runs single stages of a job, as the pipeline does one after another. */
export function createStageRunner(
  db: TestDatabase<Tables>['db'],
  images: StageDeps['images'] = noImages,
): (context: Context, name: StageName) => Promise<StageResult> {
  const model = countedModel();
  const jobModel = createJobModel(model, createEmbeddingBatches(model), {
    cost: createModelCost(),
  });
  const deps: StageDeps = { db, model: jobModel, images, log };
  const stages = new Map(createStages(10_000).map((stage) => [stage.name, stage]));
  return async (context, name) => {
    const stage = stages.get(name);
    assert.ok(stage);
    return stage.run(context, deps, new AbortController().signal);
  };
}

/** How each stage of a payload ended. */
export const outcomesOf = (raw: { stages: { stage: string; outcome: string }[] }) =>
  Object.fromEntries(raw.stages.map(({ stage, outcome }) => [stage, outcome]));

/** A listing's snapshots, the oldest first. */
export function snapshotsOf(db: TestDatabase<Tables>['db'], listingId: number | null) {
  return db
    .selectFrom('listing_snapshots')
    .select(['raw_id', 'changes', 'listing', 'model', 'prompt_version'])
    .where('listing_id', '=', listingId ?? 0)
    .orderBy('raw_id')
    .orderBy('revision')
    .execute();
}

/** How far the payloads of a listing have come. */
export function currentOf(
  db: TestDatabase<Tables>['db'],
  { source_slug, external_id }: Pick<Payload, 'source_slug' | 'external_id'>,
) {
  return db
    .selectFrom('listing_payloads')
    .selectAll()
    .where('source_slug', '=', source_slug)
    .where('external_id', '=', external_id)
    .executeTakeFirst();
}

/** The listing that a payload made. */
export function listingOf(db: TestDatabase<Tables>['db'], { external_id }: Payload) {
  return db
    .selectFrom('property_listings')
    .selectAll()
    .where('external_id', '=', external_id)
    .executeTakeFirst();
}
