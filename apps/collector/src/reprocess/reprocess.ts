import { type ModelClient, ModelError } from '@oselya/model';
import type { Kysely } from 'kysely';
import { toError } from '../async/group-commit.ts';
import type { Tables } from '../tables.ts';
import { MODEL_FIELDS } from '../listing/fields.ts';
import {
  type ExtractionRecord,
  extractionPrompt,
  extractListing,
  findRejectionReason,
} from '../pipeline/extraction.ts';
import { type Changes, diffStates, buildListingState } from '../pipeline/listing-state.ts';
import { mergeFields } from '../pipeline/merge.ts';
import { createModelCostCounter } from '../model.ts';
import { claimForReprocessing } from '../queue/claim.ts';
import type { JobRunner } from '../queue/job-runner.ts';
import type { JobOutcomeStatus } from '../queue/job-types.ts';
import { createClaimantName } from '../queue/worker.ts';
import {
  addExtractionCost,
  type SelectedListing,
  type ListingSelection,
  countListings,
  findListings,
  recordRejection,
  type ExtractorVersion,
} from './repository.ts';
import type { ReprocessInput } from './keep-completed.ts';
import { isSystemicFailure, walkListings } from './walk-listings.ts';

/** Fields that a new extraction of the same payload can change. */
const COMPARED_FIELDS = [...MODEL_FIELDS, 'description'];

/** New extraction of a payload, and the changes that it would make to the listing. */
export type RepeatedExtraction = {
  listingId: number;
  rawId: number;
  extracted: ExtractionRecord;
  changes: Changes;
};

/**
 * Outcome of extracting a payload again. `payload_gone`: the payload has expired. `in_progress`: a
 * newer payload is unfinished. `not_a_listing`: the model finds no listing; the stored listing stays.
 */
export type ExtractionOutcome =
  | ({ outcome: 'read' } & RepeatedExtraction)
  | { outcome: 'payload_gone' | 'in_progress'; listingId: number }
  | { outcome: 'not_a_listing'; listingId: number; reason: string }
  | { outcome: 'failed'; listingId: number; error: ModelError };

/**
 * Outcome of storing an extraction. `changed`: the listing has a newer or unfinished payload.
 * `incomplete`: the model failed after the write, on the embedding or the images. `queued`: a worker
 * continues. `kept`: nothing changed. `failed`: the payload failed.
 */
export type WriteOutcome =
  | { outcome: 'written' | 'changed' }
  | { outcome: 'incomplete' | 'queued' | 'kept' | 'failed'; error: Error };

/** Service behind `oselya reprocess`. */
export type Reprocess = ReturnType<typeof createReprocess>;

/**
 * Creates the service that reprocesses stored payloads with the current prompt and model. Writes go
 * through the pipeline under a claim, so a worker takes over if the process is killed.
 * @param deps.parallel Number of payloads to extract at a time.
 */
export function createReprocess(deps: {
  db: Kysely<Tables>;
  model: Pick<ModelClient, 'generateObject' | 'chatModel'>;
  jobs: Pick<JobRunner<ReprocessInput>, 'run'>;
  leaseMs: number;
  parallel: number;
}) {
  const { db, model, jobs, leaseMs, parallel } = deps;
  const claimant = { worker: createClaimantName('reprocess'), leaseMs };
  const current: ExtractorVersion = {
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
    const cost = createModelCostCounter();
    let extracted: ExtractionRecord;
    try {
      extracted = await extractListing(model, payload, { signal, observe: cost.observe });
    } catch (error) {
      if (signal.aborted || !(error instanceof ModelError)) throw error;
      return { outcome: 'failed', listingId, error };
    } finally {
      if (!dryRun && cost.usage().calls > 0) await addExtractionCost(db, rawId, cost.usage());
    }
    const reason = findRejectionReason(extracted);
    if (reason !== undefined) {
      if (!dryRun) await recordRejection(db, { listingId, rawId }, current);
      return { outcome: 'not_a_listing', listingId, reason };
    }
    const { facts } = mergeFields(rawId, payload, extracted);
    const changes = diffStates(listing, buildListingState(payload, facts), COMPARED_FIELDS);
    return { outcome: 'read', listingId, rawId, extracted, changes };
  }

  return {
    /** Current prompt version and model. */
    current,

    /** Returns the number of selected listings. */
    count: (selection: ListingSelection): Promise<number> => countListings(db, selection),

    /**
     * Extracts the stored payloads of the selected listings again, in ID order. It stores only costs
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
     * Stores an extraction through the pipeline without calling the model again.
     * @throws ModelError if the failure is systemic.
     */
    async write({ listingId, rawId, extracted }: RepeatedExtraction): Promise<WriteOutcome> {
      const job = await claimForReprocessing(db, { listingId, rawId }, claimant);
      if (job === undefined) return { outcome: 'changed' };
      let unchangedReason: string | undefined;
      const onUnchanged = (reason: string) => void (unchangedReason = reason);
      let failure: unknown;
      const onFailure = (error: unknown) => (failure = error);
      const input = { before: job.before, force: true, extracted, onUnchanged, onFailure };
      const status = await jobs.run(job, { input });
      if (isSystemicFailure(failure)) throw failure;
      const outcome = getWriteOutcome(status, unchangedReason !== undefined, failure !== undefined);
      if (outcome === 'written') return { outcome };
      return { outcome, error: toError(failure ?? unchangedReason ?? `Its payload is ${status}.`) };
    },
  };
}

function getWriteOutcome(status: JobOutcomeStatus, isUnchanged: boolean, hasFailed: boolean) {
  if (status === 'failed' || status === 'invalid') return 'failed';
  if (status !== 'completed') return 'queued';
  if (isUnchanged) return 'kept';
  return hasFailed ? 'incomplete' : 'written';
}
