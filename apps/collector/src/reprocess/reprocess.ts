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

/** The fields that can change when the same payload is read again. */
const COMPARED_FIELDS = [...MODEL_FIELDS, 'description'];

/** A new reading of a listing's payload, and the changes that it would make. */
export type RepeatedExtraction = {
  listingId: number;
  rawId: number;
  extracted: ExtractionRecord;
  changes: Changes;
};

/**
 * The outcome of reading a listing's payload again. `payload_gone`: it was removed for its age. `in_progress`: a newer one
 * is in the queue. `not_a_listing`: the model finds no listing in it now; the stored one stays.
 */
export type ExtractionOutcome =
  | ({ outcome: 'read' } & RepeatedExtraction)
  | { outcome: 'payload_gone' | 'in_progress'; listingId: number }
  | { outcome: 'not_a_listing'; listingId: number; reason: string }
  | { outcome: 'failed'; listingId: number; error: ModelError };

/**
 * The outcome of writing a reading. `changed`: another payload is or will soon be the last. `incomplete`: the listing is
 * written, and the model failed on its embedding or images. `queued`: a worker continues with the payload.
 * `kept`: listing and payload are as they were. `failed`: the payload has failed.
 */
export type WriteOutcome =
  | { outcome: 'written' | 'changed' }
  | { outcome: 'incomplete' | 'queued' | 'kept' | 'failed'; error: Error };

/** The work of `oselya reprocess`. */
export type Reprocess = ReturnType<typeof createReprocess>;

/**
 * Creates the work that processes kept payloads again with the current prompt and model. A write goes through the
 * pipeline under a claim, so workers may run meanwhile, and they continue the payloads of a killed process.
 * @param deps.parallel How many listings are read at once.
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
    /** The prompt and model that `ListingSelection.outdated` compares with. */
    current,

    /** Returns the number of chosen listings. */
    count: (choice: ListingSelection): Promise<number> => countSelected(db, choice),

    /**
     * Reads the kept payloads of listings again, in the order of the listings' ids. It stores only the cost, and the
     * payloads without a listing, which are not outdated any more.
     * @param options.dryRun Whether to store nothing.
     * @throws ModelError as `walkListings`.
     */
    read: (
      choice: ListingSelection,
      { limit, ...options }: { limit: number; signal: AbortSignal; dryRun: boolean },
    ): AsyncGenerator<ExtractionOutcome> =>
      walkListings({
        after: choice.after,
        limit,
        parallel,
        signal: options.signal,
        list: (after, count) => listSelected(db, { ...choice, after }, count),
        work: (chosen) => extractOne(chosen, options),
      }),

    /**
     * Writes a reading by the pipeline, which does not call the model for it again.
     * @throws ModelError that `isSystemicFailure`.
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
      const outcome = outcomeOf(ended, reason !== undefined, failure !== undefined);
      if (outcome === 'written') return { outcome };
      return { outcome, error: toError(failure ?? reason ?? `Its payload is ${ended}.`) };
    },
  };
}

function outcomeOf(
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
