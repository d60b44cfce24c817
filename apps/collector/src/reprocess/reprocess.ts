import { type ModelClient, ModelError } from '@oselya/model';
import type { Kysely } from 'kysely';
import { toError } from '../async/group-commit.ts';
import type { ImageService } from '../images/image-service.ts';
import { MODEL_FIELDS } from '../listing/fields.ts';
import { createModelUsageCounter } from '../model.ts';
import type { JobInput } from '../pipeline/context.ts';
import {
  type ExtractionRecord,
  extractionPrompt,
  extractListing,
  findRejectionReason,
} from '../pipeline/extraction.ts';
import { type Changes, diffStates, buildListingState } from '../pipeline/listing-state.ts';
import { mergeFields } from '../pipeline/merge.ts';
import type { Pipeline } from '../pipeline/pipeline.ts';
import { claimForReprocessing, type ReprocessingJob } from '../queue/claim.ts';
import type { JobRunner } from '../queue/job-runner.ts';
import type { ClaimResult } from '../queue/job-types.ts';
import { createClaimantName } from '../queue/worker.ts';
import type { Tables } from '../tables.ts';
import {
  addExtractionUsage,
  countListings,
  findListingKeys,
  findListings,
  type ListingSelection,
  recordRejection,
  type SelectedListing,
} from './repository.ts';
import { isSystemicFailure, walkListings } from './walk-listings.ts';

/** Fields that a new extraction of the same payload can change. */
const COMPARED_FIELDS = [...MODEL_FIELDS, 'description'];

/** New extraction of a payload, and the changes that it would make to the listing. */
export type RepeatedExtraction = {
  listingId: number;
  rawId: number;
  extractionRecord: ExtractionRecord;
  changes: Changes;
};

/**
 * Outcome of extracting a payload again. `payload_gone`: the payload was removed. `in_progress`: a payload of the
 * listing is unfinished. `not_a_listing`: the model finds no listing; the stored listing stays.
 */
export type ExtractionOutcome =
  | ({ outcome: 'read' } & RepeatedExtraction)
  | { outcome: 'payload_gone' | 'in_progress'; listingId: number }
  | { outcome: 'not_a_listing'; listingId: number; reason: string }
  | { outcome: 'failed'; listingId: number; error: ModelError };

/**
 * Outcome of storing an extraction. `changed`: the payload was removed, or the listing has a newer or unfinished one.
 * `incomplete`: the model failed after the write, on the embedding or the images. `queued`: a worker finishes the job.
 * `kept`: nothing changed. `failed`: the job ended `failed` or `invalid`.
 */
export type WriteOutcome =
  | { outcome: 'written' | 'changed' }
  | { outcome: 'incomplete' | 'queued' | 'kept' | 'failed'; error: Error };

/**
 * Outcome of describing the images of a listing again. `described`: every image has a new description or a recorded
 * error. `left`: the last payload was removed or is not completed, or a payload of the listing is unfinished. `failed`:
 * the payload and the remaining images are unchanged.
 */
export type ImageReprocessOutcome = { listingId: number } & (
  | { outcome: 'described' | 'left' }
  | { outcome: 'failed'; error: Error }
);

type ReprocessDeps = {
  db: Kysely<Tables>;
  jobs: Pick<JobRunner, 'run'>;
  process: Pipeline;
  leaseMs: number;
  /** Number of listings to process at a time. */
  parallel: number;
};

/** Service of `oselya reprocess`. */
export type Reprocess = ReturnType<typeof createReprocessService>;

/**
 * Creates the service that reprocesses stored payloads with the current prompt and model. Writes go through the
 * pipeline under a claim, so that a worker can resume the job of a killed process.
 */
export function createReprocessService(
  deps: ReprocessDeps & { model: Pick<ModelClient, 'generateObject' | 'chatModel'> },
) {
  const { db, model, leaseMs, parallel } = deps;
  const claimTerms = { worker: createClaimantName('reprocess'), leaseMs };
  const currentExtractor = {
    promptVersion: extractionPrompt.version,
    requestedModel: model.chatModel,
  };

  async function extractOne(
    listing: SelectedListing,
    { signal, dryRun }: { signal: AbortSignal; dryRun: boolean },
  ): Promise<ExtractionOutcome> {
    const { id: listingId, raw_id: rawId, payload } = listing;
    if (listing.has_unfinished_payload) return { outcome: 'in_progress', listingId };
    if (payload === null) return { outcome: 'payload_gone', listingId };
    const usage = createModelUsageCounter();
    let extractionRecord: ExtractionRecord;
    try {
      extractionRecord = await extractListing(model, payload, { signal, observe: usage.observe });
    } catch (error) {
      if (signal.aborted || !(error instanceof ModelError)) throw error;
      return { outcome: 'failed', listingId, error };
    } finally {
      if (!dryRun && usage.getUsage().calls > 0)
        await addExtractionUsage(db, rawId, usage.getUsage());
    }
    const reason = findRejectionReason(extractionRecord);
    if (reason !== undefined) {
      if (!dryRun) await recordRejection(db, { listingId, rawId }, currentExtractor);
      return { outcome: 'not_a_listing', listingId, reason };
    }
    const { facts } = mergeFields(rawId, payload, extractionRecord, listing.corrections ?? {});
    const changes = diffStates(listing, buildListingState(payload, facts), COMPARED_FIELDS);
    return { outcome: 'read', listingId, rawId, extractionRecord, changes };
  }

  return {
    /** Version of the current prompt, and name of the current model. */
    currentExtractor,

    /** Returns the number of selected listings. */
    count: (selection: ListingSelection): Promise<number> => countListings(db, selection),

    /**
     * Extracts the stored payloads of the selected listings again, in ID order. It stores only the model usage
     * and rejections, and nothing with `dryRun`.
     * @throws ModelError if a failure is systemic, or after ten consecutive failures.
     */
    read: (
      selection: ListingSelection,
      { limit, ...options }: { limit: number; signal: AbortSignal; dryRun: boolean },
    ): AsyncGenerator<ExtractionOutcome> =>
      walkListings({
        after: selection.after,
        limit,
        parallel,
        signal: options.signal,
        list: (after, count) => findListings(db, { ...selection, after }, count),
        work: (listing) => extractOne(listing, options),
      }),

    /**
     * Stores an extraction through the pipeline, without extracting the payload again.
     * @throws ModelError if the failure is systemic.
     */
    async write({ rawId, extractionRecord }: RepeatedExtraction): Promise<WriteOutcome> {
      const job = await claimForReprocessing(db, rawId, claimTerms);
      if (job === undefined) return { outcome: 'changed' };
      const { status, failure, unchangedReason } = await runJob(deps, job, { extractionRecord });
      if (isSystemicFailure(failure)) throw failure;
      const outcome = getWriteOutcome(status, unchangedReason !== undefined, failure !== undefined);
      if (outcome === 'written') return { outcome };
      return { outcome, error: toError(failure ?? unchangedReason ?? `The payload is ${status}.`) };
    },
  };
}

/** Service of `oselya reprocess --pictures`. */
export type ReprocessImages = ReturnType<typeof createImageReprocessService>;

/**
 * Creates the service that describes images again with the current prompt and model. The images of
 * a listing go through the pipeline under a claim of its last payload, which stays completed.
 */
export function createImageReprocessService(
  deps: ReprocessDeps & { images: Pick<ImageService, 'descriptionVersion'> },
) {
  const { db, images, leaseMs, parallel } = deps;
  const outdatedImages = images.descriptionVersion;
  const claimTerms = { worker: createClaimantName('reprocess'), leaseMs };

  async function describeOne({
    id: listingId,
    raw_id: rawId,
  }: Pick<SelectedListing, 'id' | 'raw_id'>): Promise<ImageReprocessOutcome> {
    const job = await claimForReprocessing(db, rawId, claimTerms, { isImagesOnly: true });
    if (job === undefined) return { listingId, outcome: 'left' };
    const { status, failure } = await runJob(deps, job, { shouldDescribeAgain: true });
    if (failure === undefined && status === 'completed') return { listingId, outcome: 'described' };
    const error = toError(failure ?? `The payload is ${status}.`);
    return { listingId, outcome: 'failed', error };
  }

  return {
    /** Returns the number of selected listings with outdated descriptions; 0 with `MODEL_VISION=off`. */
    count: async (selection: ListingSelection): Promise<number> =>
      outdatedImages === undefined ? 0 : countListings(db, { ...selection, outdatedImages }),

    /**
     * Describes the outdated images of the selected listings, in ID order. A later run resumes an interrupted one.
     * @param options.signal Stops the run after the work in progress.
     * @throws ModelError if a failure is systemic; the last error after ten consecutive failures.
     */
    describe: (
      selection: ListingSelection,
      { limit, signal }: { limit: number; signal: AbortSignal },
    ): AsyncGenerator<ImageReprocessOutcome> =>
      walkListings({
        after: selection.after,
        limit: outdatedImages === undefined ? 0 : limit,
        parallel,
        signal,
        list: (after, count) => findListingKeys(db, { ...selection, outdatedImages, after }, count),
        work: describeOne,
      }),
  };
}

/**
 * Runs a job. A completed payload stays completed if the job did not try to write its listing, or if the model failed
 * after the write. Other commands add the missing embedding and descriptions.
 * @returns The status, the last error of a stage, and the reason why a completed payload is unchanged.
 */
async function runJob(
  { jobs, process }: Pick<ReprocessDeps, 'jobs' | 'process'>,
  job: ReprocessingJob,
  input: JobInput,
): Promise<{ status: ClaimResult; failure: unknown; unchangedReason: string | undefined }> {
  let failure: unknown;
  let unchangedReason: string | undefined;
  const onFailure = (error: unknown) => (failure = error);
  const status = await jobs.run(job, async (run) => {
    const result = await process(job, run, { ...input, onFailure });
    if (job.earlierStatus !== 'completed' || result.status === 'completed') return result;
    // A write that failed, for example because of a timeout, may still have been committed.
    const isWritten = run.stages.some(
      ({ stage, outcome }) => stage === 'upsert' && (outcome === 'done' || outcome === 'failed'),
    );
    const hasModelFailed = result.status === 'failed' && result.error?.code === 'model_failed';
    if (isWritten && !hasModelFailed) return result;
    if (!isWritten) unchangedReason = result.error?.message ?? 'A required service is unavailable.';
    return { status: 'completed' };
  });
  return { status, failure, unchangedReason };
}

function getWriteOutcome(status: ClaimResult, isUnchanged: boolean, hasFailed: boolean) {
  if (status === 'failed' || status === 'invalid') return 'failed';
  if (status !== 'completed') return 'queued';
  if (isUnchanged) return 'kept';
  return hasFailed ? 'incomplete' : 'written';
}
