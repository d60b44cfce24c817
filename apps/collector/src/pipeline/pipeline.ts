import { isDatabaseOutage, LeaseLostError } from '@oselya/db';
import { ModelError, type ModelClient } from '@oselya/model';
import { rejectOnAbort, pause } from '../async/wait.ts';
import { isDiskLow } from '../free-disk-space.ts';
import { createBatchingEmbedder } from '../embeddings/batches.ts';
import { StoreOutageError } from '../images/store.ts';
import { MAX_IMAGES } from '../schemas.ts';
import type { Metrics } from '../metrics.ts';
import { createOutageCounter } from '../model.ts';
import type { Job, JobOutcome, JobRun } from '../queue/job-types.ts';
import type { JobContext, JobInput, JobModel, Stage, StageDeps, StageResult } from './context.ts';
import { saveExtraction } from './extraction.ts';
import {
  COMPLETED_OUTCOME,
  toFailureResult,
  SKIPPED_RESULT,
  StageTimeoutError,
} from './outcome.ts';
import { embed } from './stages/embed.ts';
import { enrich } from './stages/enrich.ts';
import { processImages } from './stages/images.ts';
import { load } from './stages/load.ts';
import { snapshot } from './stages/snapshot.ts';
import { upsert } from './stages/upsert.ts';
import { normalize, validate } from './stages/validate-and-normalize.ts';

export type PipelineDeps = Omit<StageDeps, 'model'> & {
  model: Pick<ModelClient, 'generateObject' | 'embed' | 'chatModel' | 'embeddingModel'>;
};

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;

/** Timeout of stages that use the database. It exceeds those of a query (30 s) and of a connection (10 s). */
const DATABASE_TIMEOUT_MS = 90 * SECOND_MS;

const IMAGES_TIMEOUT_MS = 30 * MINUTE_MS;

/**
 * Delay after a server failure, multiplied by the attempt number. The delay exceeds the 30 s for which a breaker is
 * usually open, because other jobs must send the next probes.
 */
const RETRY_MS = 45 * SECOND_MS;
const MAX_RETRY_FACTOR = 20;

/** Number of outages after which a job counts as their cause. */
const MAX_OUTAGES_PER_JOB = 5;

const STAGE_RETRY_MS = 200;

/** Stages of a job that only processes images. */
const IMAGE_STAGES = new Set(['load', 'images', 'enrich']);

/**
 * Returns the stages in the order of execution. Contract 4, Stages.
 * @param modelTimeoutMs Timeout of one model call.
 */
export function createStages(modelTimeoutMs: number): readonly Stage[] {
  const imagesTimeoutMs = IMAGES_TIMEOUT_MS + (MAX_IMAGES + 2) * modelTimeoutMs;
  return [
    { name: 'load', run: load, timeoutMs: DATABASE_TIMEOUT_MS, attempts: 3 },
    { name: 'validate', run: validate, timeoutMs: modelTimeoutMs + 10 * SECOND_MS, attempts: 1 },
    { name: 'normalize', run: normalize, timeoutMs: 10 * SECOND_MS, attempts: 1 },
    { name: 'upsert', run: upsert, timeoutMs: DATABASE_TIMEOUT_MS, attempts: 3 },
    { name: 'snapshot', run: snapshot, timeoutMs: DATABASE_TIMEOUT_MS, attempts: 3 },
    { name: 'images', run: processImages, timeoutMs: imagesTimeoutMs, attempts: 3 },
    { name: 'enrich', run: enrich, timeoutMs: DATABASE_TIMEOUT_MS, attempts: 3 },
    { name: 'embed', run: embed, timeoutMs: modelTimeoutMs + DATABASE_TIMEOUT_MS, attempts: 3 },
  ];
}

/** Processes a job, but does not store its status. */
export type Pipeline = ReturnType<typeof createPipeline>;

/**
 * Creates the function that runs the stages of a job until one ends it. Specification 001, Pipeline.
 * @param deps.retryMs Delay after a server failure, in milliseconds, multiplied by the attempt number. 45 s by default.
 */
export function createPipeline(
  deps: PipelineDeps & {
    metrics: Pick<Metrics, 'stageDuration'>;
    modelTimeoutMs: number;
    retryMs?: number | undefined;
  },
) {
  const { db, model, log, metrics, retryMs = RETRY_MS } = deps;
  const stages = createStages(deps.modelTimeoutMs);
  const embedText = createBatchingEmbedder(model);
  const outageCounter = createOutageCounter<number>();

  return async (
    job: Job,
    { signal, usage, stages: stageRecords }: JobRun,
    input: JobInput = {},
  ): Promise<JobOutcome> => {
    const context: JobContext = { ...input, job, outputs: {} };
    const { rawId } = job;
    const { observe } = usage;
    // After an outage, embed the text alone, because it could make the texts of other jobs fail.
    const shouldEmbedAlone = outageCounter.has(rawId);
    const jobModel: JobModel = {
      chatModel: model.chatModel,
      embeddingModel: model.embeddingModel,
      generateObject: (request) => model.generateObject({ ...request, observe }),
      embed: (text, embedSignal) =>
        embedText({ text, signal: embedSignal, observe, isAlone: shouldEmbedAlone }),
      observe,
    };

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
          // images/describe.ts detects the images that cause outages, so the job itself does not count as the cause.
          isCause: (outage) =>
            !(error instanceof ModelError && stage.name === 'images') &&
            outageCounter.isCause(rawId, outage, MAX_OUTAGES_PER_JOB),
        });
      }
    }

    let jobOutcome: JobOutcome | undefined;
    for (const stage of stages) {
      const startedAt = new Date();
      const result = await run(stage);
      const { outcome } = result;
      const duration_ms = Date.now() - startedAt.getTime();
      const started_at = startedAt.toISOString();
      stageRecords.push({ stage: stage.name, outcome, started_at, duration_ms });
      metrics.stageDuration.observe({ stage: stage.name, outcome }, duration_ms / SECOND_MS);
      ({ jobOutcome } = result);
      if (jobOutcome !== undefined) break;
    }
    jobOutcome ??= COMPLETED_OUTCOME;
    if (jobOutcome.status === 'returned') {
      const { extractionRecord, savedExtraction } = context.outputs;
      // Jobs with uploads are never retried, because the images exist only during the request.
      const canRetry = context.uploads === undefined;
      if (canRetry && extractionRecord !== undefined && extractionRecord !== savedExtraction) {
        await saveExtraction(db, job, extractionRecord);
      }
      return jobOutcome;
    }
    outageCounter.reset(rawId);
    return { ...jobOutcome, listingId: context.outputs.listingId };
  };
}

/**
 * Runs a stage, and retries it after transient errors. Skips it if the job only processes images and does not need it.
 * The clients of the model and the image store handle their own retries.
 * @throws The error of the last attempt; StageTimeoutError; `signal.reason`.
 */
export async function runStage(
  stage: Stage,
  context: JobContext,
  deps: StageDeps,
  signal: AbortSignal,
): Promise<StageResult> {
  if (context.outputs.isImagesOnly === true && !IMAGE_STAGES.has(stage.name)) return SKIPPED_RESULT;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await runWithTimeout(stage, context, deps, signal);
    } catch (error) {
      if (isPermanentError(error) || signal.aborted || attempt >= stage.attempts) throw error;
      await pause(STAGE_RETRY_MS * attempt, signal);
    }
  }
}

function isPermanentError(error: unknown): boolean {
  return (
    error instanceof ModelError ||
    error instanceof StoreOutageError ||
    error instanceof LeaseLostError ||
    error instanceof StageTimeoutError ||
    isDatabaseOutage(error) ||
    isDiskLow(error)
  );
}

/** Runs a stage with a timeout. Even if a stage ignores its signal, it cannot write without the claim. */
async function runWithTimeout(
  stage: Stage,
  context: JobContext,
  deps: StageDeps,
  signal: AbortSignal,
): Promise<StageResult> {
  // `AbortSignal.any` would leak: Node retains its signals until they are aborted.
  const controller = new AbortController();
  const abortStage = () => controller.abort(signal.reason);
  signal.addEventListener('abort', abortStage);
  const timer = setTimeout(() => {
    const seconds = stage.timeoutMs / SECOND_MS;
    controller.abort(
      new StageTimeoutError(`The stage "${stage.name}" took longer than ${seconds} s.`),
    );
  }, stage.timeoutMs);
  try {
    signal.throwIfAborted();
    return await rejectOnAbort(controller.signal, stage.run(context, deps, controller.signal));
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', abortStage);
  }
}
