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
import type { InlineJobs } from '../queue/inline.ts';
import type { JobOutcomeStatus } from '../queue/job-types.ts';
import { createClaimantName } from '../queue/worker.ts';
import {
  addExtractionCost,
  type SelectedListing,
  type ListingSelection,
  countSelected,
  listSelected,
  noteRejection,
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
 * Outcome of extracting a payload again. `payload_gone`: the payload has expired. `in_progress`: a newer payload is in
 * the queue. `not_a_listing`: the model no longer finds a listing in the payload; the stored listing stays.
 */
export type ExtractionOutcome =
  | ({ outcome: 'read' } & RepeatedExtraction)
  | { outcome: 'payload_gone' | 'in_progress'; listingId: number }
  | { outcome: 'not_a_listing'; listingId: number; reason: string }
  | { outcome: 'failed'; listingId: number; error: ModelError };

/**
 * Outcome of storing an extraction. `changed`: the listing has a newer payload, or one is in progress. `incomplete`:
 * the listing is stored, but the model failed on its embedding or images. `queued`: a worker continues with the
 * payload. `kept`: nothing changed. `failed`: the payload failed.
 */
export type WriteOutcome =
  | { outcome: 'written' | 'changed' }
  | { outcome: 'incomplete' | 'queued' | 'kept' | 'failed'; error: Error };

/** Service behind `oselya reprocess`. */
export type Reprocess = ReturnType<typeof createReprocess>;

/**
 * Creates the service that reprocesses stored payloads with the current prompt and model. Writes go through the
 * pipeline under a claim, so workers may run meanwhile and take over if the process is killed.
 * @param deps.parallel Number of payloads to extract at a time.
 */
export function createReprocess(deps: {
  db: Kysely<Tables>;
  model: Pick<ModelClient, 'generateObject' | 'chatModel'>;
  jobs: Pick<InlineJobs<ReprocessInput>, 'run'>;
  leaseMs: number;
  parallel: number;
}) {
  const { db, model, jobs, leaseMs, parallel } = deps;
  const worker = createClaimantName('reprocess');
  const current: ExtractorVersion = {
    promptVersion: extractionPrompt.version,
    requestedModel: model.chatModel,
  };
  async function extractOne(
    chosen: SelectedListing,
    { signal, dryRun }: { signal: AbortSignal; dryRun: boolean },
  ): Promise<ExtractionOutcome> {
    const { id: listingId, raw_id: rawId, payload, is_awaited: hasUnfinishedPayload } = chosen;
    if (hasUnfinishedPayload) return { outcome: 'in_progress', listingId };
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
      if (!dryRun) await noteRejection(db, { listingId, rawId }, current);
      return { outcome: 'not_a_listing', listingId, reason };
    }
    const { facts } = mergeFields(rawId, payload, extracted);
    const changes = diffStates(chosen, buildListingState(payload, facts), COMPARED_FIELDS);
    return { outcome: 'read', listingId, rawId, extracted, changes };
  }

  return {
    /** Current prompt version and model. */
    current,

    /** Returns the number of selected listings. */
    count: (selection: ListingSelection): Promise<number> => countSelected(db, selection),

    /**
     * Extracts the stored payloads of the selected listings again, in ID order. It stores only the cost, and which
     * payloads contain no listing.
     * @param options.dryRun Whether to store nothing.
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
        list: (after, count) => listSelected(db, { ...selection, after }, count),
        work: (chosen) => extractOne(chosen, options),
      }),

    /**
     * Stores an extraction through the pipeline without calling the model again.
     * @throws ModelError if the failure affects every listing (see `isSystemicFailure`).
     */
    async write(reading: RepeatedExtraction): Promise<WriteOutcome> {
      const { listingId, rawId, extracted } = reading;
      const job = await claimForReprocessing(db, { listingId, rawId }, { worker, leaseMs });
      if (job === undefined) return { outcome: 'changed' };
      let reason: string | undefined;
      const onKept = (why: string) => void (reason = why);
      let failure: unknown;
      const onFailure = (error: unknown) => (failure = error);
      const { before } = job;
      const input = { before, force: true, extracted, onKept, onFailure };
      const ended = await jobs.run(job, { input });
      if (isSystemicFailure(failure)) throw failure;
      const outcome = getWriteOutcome(ended, reason !== undefined, failure !== undefined);
      if (outcome === 'written') return { outcome };
      return { outcome, error: toError(failure ?? reason ?? `Its payload is ${ended}.`) };
    },
  };
}

function getWriteOutcome(
  ended: JobOutcomeStatus,
  isKept: boolean,
  hasFailed: boolean,
): Exclude<WriteOutcome['outcome'], 'changed'> {
  if (ended === 'completed') {
    if (isKept) return 'kept';
    return hasFailed ? 'incomplete' : 'written';
  }
  return ended === 'failed' || ended === 'invalid' ? 'failed' : 'queued';
}
