import { isDatabaseOutage } from '@oselya/db';
import { ModelError, type ModelClient } from '@oselya/model';
import { rejectOnAbort, pause } from '../async/wait.ts';
import { isDiskLow } from '../free-disk-space.ts';
import { createBatchingEmbedder, type EmbedText } from '../embeddings/batches.ts';
import { StoreOutageError } from '../images/store.ts';
import { MAX_IMAGES } from '../schemas.ts';
import type { Metrics } from '../metrics.ts';
import { createModelCostCounter, type ModelCostCounter, createOutageCounter } from '../model.ts';
import { LeaseLostError, type ProcessJob } from '../queue/job-types.ts';
import type {
  Context,
  PipelineOutcome,
  JobInput,
  JobModel,
  Stage,
  StageDeps,
  StageResult,
} from './context.ts';
import { saveExtraction } from './extraction.ts';
import { completed, toFailureResult, skipped, StageTimeoutError } from './outcome.ts';
import { embed } from './stages/embed.ts';
import { enrich } from './stages/enrich.ts';
import { images } from './stages/images.ts';
import { load } from './stages/load.ts';
import { normalize } from './stages/normalize.ts';
import { snapshot } from './stages/snapshot.ts';
import { upsert } from './stages/upsert.ts';
import { validate } from './stages/validate.ts';

/** The dependencies of the pipeline. */
export type PipelineDeps = Omit<StageDeps, 'model'> & {
  model: Pick<ModelClient, 'generateObject' | 'embed' | 'chatModel' | 'embeddingModel'>;
};

const SECOND = 1000;
const MINUTE = 60 * SECOND;

/** Longer than the timeouts of a query (30 s) and of a connection (10 s), which then fail first. */
const DATABASE_MS = 90 * SECOND;

/** Time to fetch, store and scale the images of a listing. */
const IMAGES_MS = 30 * MINUTE;

/**
 * Delay after a server failure, multiplied by the number of attempts. It exceeds the 30 s of an open breaker, so
 * that other jobs send the next probes.
 */
const RETRY_MS = 45 * SECOND;
const MAX_RETRY_FACTOR = 20;

/** A job that encountered this many outages is assumed to cause them. */
const MAX_OUTAGES = 5;

const STAGE_RETRY_MS = 200;

/** Stages that run for an unchanged payload with missing images. */
const IMAGE_STAGES = new Set(['load', 'images', 'enrich']);

/**
 * Returns the stages in the order of execution. The model client enforces its own timeout and retries. Contract
 * 4, Stages.
 * @param modelMs Timeout of one model call, in milliseconds.
 */
export function createStages(modelMs: number): readonly Stage[] {
  const imagesMs = IMAGES_MS + (MAX_IMAGES + 2) * modelMs;
  return [
    { name: 'load', run: load, timeoutMs: DATABASE_MS, attempts: 3 },
    { name: 'validate', run: validate, timeoutMs: modelMs + 10 * SECOND, attempts: 1 },
    { name: 'normalize', run: normalize, timeoutMs: 10 * SECOND, attempts: 1 },
    { name: 'upsert', run: upsert, timeoutMs: DATABASE_MS, attempts: 3 },
    { name: 'snapshot', run: snapshot, timeoutMs: DATABASE_MS, attempts: 3 },
    { name: 'images', run: images, timeoutMs: imagesMs, attempts: 3 },
    { name: 'enrich', run: enrich, timeoutMs: DATABASE_MS, attempts: 3 },
    { name: 'embed', run: embed, timeoutMs: modelMs + DATABASE_MS, attempts: 3 },
  ];
}

/**
 * Creates the function that runs the stages of a job until one of them ends it. Specification 001, Pipeline.
 * @param deps.retryMs Delay after a server failure, in milliseconds. 45 s by default.
 */
export function createPipeline(
  deps: PipelineDeps & {
    metrics: Pick<Metrics, 'stageDuration'>;
    modelTimeoutMs: number;
    retryMs?: number | undefined;
  },
): ProcessJob<JobInput> {
  const { db, model, log, metrics, retryMs = RETRY_MS } = deps;
  const stages = createStages(deps.modelTimeoutMs);
  const embedText = createBatchingEmbedder(model);
  const outages = createOutageCounter<number>();

  /** Saves a new extraction for the next attempt. */
  async function saveNewExtraction({ job, uploads, outputs }: Context): Promise<void> {
    const { extracted, savedExtraction } = outputs;
    // A job with uploads cannot be retried: its images exist only during the request.
    if (uploads !== undefined || extracted === undefined || extracted === savedExtraction) return;
    await saveExtraction(db, job, extracted);
  }

  return async (job, { signal, input, cost = createModelCostCounter(), stages: records = [] }) => {
    const context: Context = { ...input, job, outputs: {} };
    const { rawId } = job;
    // Embed the text alone after an outage, so that it cannot fail the texts of other jobs.
    const jobModel = createJobModel(model, embedText, { cost, alone: outages.has(rawId) });

    async function run(stage: Stage): Promise<StageResult> {
      try {
        return await runStage(stage, context, { ...deps, model: jobModel }, signal);
      } catch (error) {
        if (error instanceof LeaseLostError || isDatabaseOutage(error) || signal.aborted)
          throw error;
        context.onFailure?.(error);
        log.warn({ err: error, raw_id: rawId, stage: stage.name }, 'a stage failed');
        return toFailureResult(error, stage.name, {
          canWait: context.canWait ?? true,
          retryMs: retryMs * Math.min(job.attempt, MAX_RETRY_FACTOR),
          // images/describe.ts counts the outages that images cause.
          isCause: (outage) =>
            !(error instanceof ModelError && stage.name === 'images') &&
            outages.add(rawId, outage) >= MAX_OUTAGES,
        });
      }
    }

    let jobOutcome: PipelineOutcome | undefined;
    for (const stage of stages) {
      const startedAt = new Date();
      const result = await run(stage);
      const { outcome } = result;
      const duration_ms = Date.now() - startedAt.getTime();
      const started_at = startedAt.toISOString();
      records.push({ stage: stage.name, outcome, started_at, duration_ms });
      metrics.stageDuration.observe({ stage: stage.name, outcome }, duration_ms / SECOND);
      ({ jobOutcome } = result);
      if (jobOutcome !== undefined) break;
    }
    jobOutcome ??= completed;
    if (jobOutcome.status === 'postponed') {
      await saveNewExtraction(context);
      return jobOutcome;
    }
    outages.forget(rawId);
    return { ...jobOutcome, stages: records, listingId: context.outputs.listingId ?? null };
  };
}

/**
 * Creates the model client of one job.
 * @param embedText Embeds texts in batches across all jobs.
 * @param options.alone Whether to embed the job's text in a separate request.
 */
export function createJobModel(
  model: Pick<ModelClient, 'generateObject' | 'chatModel' | 'embeddingModel'>,
  embedText: EmbedText,
  { cost, alone = false }: { cost: ModelCostCounter; alone?: boolean },
): JobModel {
  const { observe } = cost;
  return {
    chatModel: model.chatModel,
    embeddingModel: model.embeddingModel,
    generateObject: (request) => model.generateObject({ ...request, observe }),
    embed: (text, signal) => embedText({ text, signal, observe, alone }),
    observe,
  };
}

/**
 * Runs a stage, and retries transient errors. Errors of the model and the image store are final, since their
 * clients retry.
 * @throws The error of the last attempt; StageTimeoutError; `signal.reason`.
 */
export async function runStage(
  stage: Stage,
  context: Context,
  deps: StageDeps,
  signal: AbortSignal,
): Promise<StageResult> {
  if (context.outputs.onlyImages === true && !IMAGE_STAGES.has(stage.name)) return skipped;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await runWithinTime(stage, context, deps, signal);
    } catch (error) {
      if (isFinal(error) || signal.aborted || attempt >= stage.attempts) throw error;
      await pause(STAGE_RETRY_MS * attempt, signal);
    }
  }
}

function isFinal(error: unknown): boolean {
  return (
    error instanceof ModelError ||
    error instanceof StoreOutageError ||
    error instanceof LeaseLostError ||
    error instanceof StageTimeoutError ||
    isDatabaseOutage(error) ||
    isDiskLow(error)
  );
}

/** A stage that ignores its signal may continue, but cannot write: the job no longer holds its claim. */
async function runWithinTime(
  stage: Stage,
  context: Context,
  deps: StageDeps,
  signal: AbortSignal,
): Promise<StageResult> {
  // `AbortSignal.any` would leak: Node retains its signals until they are aborted.
  const controller = new AbortController();
  const end = () => controller.abort(signal.reason);
  signal.addEventListener('abort', end);
  const timer = setTimeout(() => {
    const seconds = stage.timeoutMs / SECOND;
    controller.abort(
      new StageTimeoutError(`The stage "${stage.name}" took longer than ${seconds} s.`),
    );
  }, stage.timeoutMs);
  try {
    signal.throwIfAborted();
    return await rejectOnAbort(controller.signal, stage.run(context, deps, controller.signal));
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', end);
  }
}
