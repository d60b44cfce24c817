import type { ModelClient } from '@oselya/model';
import { StoreOutageError, TRIALS_MS } from '../images/index.ts';
import { MAX_IMAGES } from '../schemas.ts';
import type { Metrics } from '../metrics.ts';
import { LeaseLostError, type ProcessJob } from '../queue/index.ts';
import { createEmbeddingBatches } from '../embeddings/batches.ts';
import type { Context, StageDeps, JobInput } from './context.ts';
import { createJobModel } from './job-model.ts';
import { completed, failure } from './outcome.ts';
import { createJobOutages, MOST_MODEL_OUTAGES, MOST_STORE_OUTAGES } from './outages.ts';
import { keepReading } from './readings.sql.ts';
import { runStage } from './run-stage.ts';
import type { Stage, StageResult } from './stage.ts';
import { embed } from './stages/embed.ts';
import { enrich } from './stages/enrich.ts';
import { images } from './stages/images.ts';
import { load } from './stages/load.ts';
import { normalize } from './stages/normalize.ts';
import { snapshot } from './stages/snapshot.ts';
import { upsert } from './stages/upsert.ts';
import { validate } from './stages/validate.ts';

/** What the pipeline works with. */
export type PipelineDeps = Omit<StageDeps, 'model'> & {
  model: Pick<ModelClient, 'generateObject' | 'embed' | 'chatModel' | 'embeddingModel'>;
};

const SECOND = 1000;
const MINUTE = 60 * SECOND;

/**
 * For what a stage asks the database. A connection that hangs fails a query after 30 s, and a new one after
 * 10 s: a stage whose time ended before would be taken for one that does not end, instead of for an outage.
 */
const DATABASE_MS = 90 * SECOND;

/** For what is to be done with pictures beside describing them: fetching, storing, making smaller copies. */
const PICTURES_MS = 30 * MINUTE;

/**
 * The stages in their order. Where the model is called, the model client owns deadline and attempts, and
 * the stage's time is only there for the case that it fails to; that of `images` has to do for as many
 * pictures as a payload may have, described one after another, and for as long as they may be tried: the last
 * trial, of two calls, begins before `TRIALS_MS` are over. Contract 4, Stages.
 * @param modelMs The deadline of one call to the model.
 */
export function createStages(modelMs: number): readonly Stage[] {
  const picturesMs = PICTURES_MS + TRIALS_MS + (MAX_IMAGES + 2) * modelMs;
  return [
    { name: 'load', run: load, timeoutMs: DATABASE_MS, attempts: 3 },
    { name: 'validate', run: validate, timeoutMs: modelMs + 10 * SECOND, attempts: 1 },
    { name: 'normalize', run: normalize, timeoutMs: 10 * SECOND, attempts: 1 },
    { name: 'upsert', run: upsert, timeoutMs: DATABASE_MS, attempts: 3 },
    { name: 'snapshot', run: snapshot, timeoutMs: DATABASE_MS, attempts: 3 },
    { name: 'images', run: images, timeoutMs: picturesMs, attempts: 3 },
    { name: 'enrich', run: enrich, timeoutMs: DATABASE_MS, attempts: 3 },
    { name: 'embed', run: embed, timeoutMs: modelMs + DATABASE_MS, attempts: 3 },
  ];
}

/**
 * Makes the function that takes a job through the stages until one of them ends it.
 * Specification 001, Pipeline.
 */
export function createPipeline(
  deps: PipelineDeps & { metrics: Pick<Metrics, 'stageDuration'>; modelTimeoutMs: number },
): ProcessJob<JobInput> {
  const stages = createStages(deps.modelTimeoutMs);
  const embedText = createEmbeddingBatches(deps.model);
  const outages = createJobOutages(MOST_MODEL_OUTAGES);
  const storeOutages = createJobOutages(MOST_STORE_OUTAGES);

  /** What the model has read is not read again at the next attempt; where it cannot be kept, it is. */
  async function keepRead({ job, uploads, products }: Context): Promise<void> {
    const { extracted, kept } = products;
    // A payload whose pictures are gone with its request has no next attempt.
    if (uploads !== undefined || extracted === undefined || extracted === kept) return;
    try {
      await keepReading(deps.db, job, extracted);
    } catch (error) {
      if (error instanceof LeaseLostError) throw error;
      deps.log.warn({ err: error, raw_id: job.rawId }, 'what was read could not be kept');
    }
  }

  return async (job, options) => {
    const { signal, patience, input, cost, stages: records = [] } = options;
    const context: Context = { ...input, job, products: {} };
    const { canWait = true } = context;
    // Whose text may be what the server failed on, takes no others along.
    const alone = outages.hasMet(job.rawId);
    const model = createJobModel(deps.model, embedText, { alone, ...(cost && { cost }) });

    for (const stage of stages) {
      const startedAt = new Date();
      const { outcome, ending } = await runStage(
        stage,
        context,
        { ...deps, model },
        { signal, patience },
      ).catch((error: unknown): StageResult => {
        // The claim is gone, or is about to be returned: that is not for the stages to record.
        if (error instanceof LeaseLostError || signal.aborted) throw error;
        context.onFailure?.(error);
        deps.log.warn({ err: error, raw_id: job.rawId, stage: stage.name }, 'a stage failed');
        const isVictim = (outage: object) => {
          if (error instanceof StoreOutageError) return storeOutages.isVictim(job.rawId, outage);
          // Whether it is a picture that the model fails on is told for each of them (see images/trials.ts).
          return stage.name === 'images' || outages.isVictim(job.rawId, outage);
        };
        return failure(error, stage.name, { canWait, isVictim });
      });
      const duration_ms = Date.now() - startedAt.getTime();
      records.push({
        stage: stage.name,
        outcome,
        started_at: startedAt.toISOString(),
        duration_ms,
      });
      deps.metrics.stageDuration.observe({ stage: stage.name, outcome }, duration_ms / SECOND);
      if (ending?.status === 'postponed') await keepRead(context);
      if (ending !== undefined) return end(ending);
    }
    return end(completed);

    function end(ending: NonNullable<StageResult['ending']>) {
      if (ending.status === 'postponed') return ending;
      outages.forget(job.rawId);
      storeOutages.forget(job.rawId);
      return {
        ...ending,
        stages: records,
        listingId: context.products.listingId ?? null,
      };
    }
  };
}
