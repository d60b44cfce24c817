import { type ModelClient, ModelError } from '@oselya/model';
import type { Kysely } from 'kysely';
import { toError } from '../async/group-commit.ts';
import type { Tables } from '../tables.ts';
import { READ_FIELDS } from '../listing/fields.ts';
import {
  type Extracted,
  extractionPrompt,
  extractListing,
  rejectionOf,
} from '../pipeline/extraction.ts';
import { type Changes, diffStates, listingState } from '../pipeline/listing-state.ts';
import { readFacts } from '../pipeline/merge.ts';
import { createEmbeddingBatches, type Embedded } from '../embeddings/batches.ts';
import { embeddingText, isEmbedded } from '../embeddings/text.ts';
import { sha256 } from '../text.ts';
import { createModelCost } from '../model.ts';
import { claimAgain } from '../queue/claim.ts';
import type { InlineJobs } from '../queue/inline.ts';
import type { JobOutcome } from '../queue/job.ts';
import { processName } from '../queue/worker.ts';
import {
  addReadingCost,
  type Chosen,
  type Choice,
  countChosen,
  findWritten,
  listChosen,
  noteRefusal,
  type ReadBy,
} from './repository.ts';
import { type AgainInput, isOfAll, walkListings } from './again.ts';

/** The fields that can change when the same payload is read again. */
const REREAD_FIELDS = [...READ_FIELDS, 'description'];

/** A listing as the model reads its payload now, and what of it would change. */
export type Reading = {
  listingId: number;
  rawId: number;
  extracted: Extracted;
  changes: Changes;
};

/** What became of one listing that was to be read again. */
export type ReadOutcome =
  | ({ outcome: 'read' } & Reading)
  /** The payload is no longer kept, or another one is on its way. */
  | { outcome: 'payload_gone' | 'in_progress'; listingId: number }
  /** The model finds no listing in it now. The listing stays as it is. */
  | { outcome: 'not_a_listing'; listingId: number; reason: string }
  /** The model fails on it. */
  | { outcome: 'failed'; listingId: number; error: ModelError };

/** What became of a reading that was to be written. */
export type WriteOutcome =
  /** `changed`: the listing was made from another payload meanwhile, or will soon be. */
  | { outcome: 'written' | 'changed' }
  | {
      /**
       * `incomplete`: the listing is written, but the model failed on what follows from that, such as its pictures,
       * which are as they were. `queued`: the payload is back in the queue, and a worker goes on with it. `kept`:
       * the listing and its payload are as they were. `failed`: the payload has failed, and says why.
       */
      outcome: 'incomplete' | 'queued' | 'kept' | 'failed';
      error: Error;
    };

/** What `oselya reprocess` does: it reads, shows what would change, and writes. */
export type Reprocess = {
  /** How many listings a choice is. */
  count(choice: Choice): Promise<number>;
  /**
   * Has the model read the kept payloads of the listings again, as many at once as the worker has slots, and
   * gives them in the order of their ids. It writes nothing but what that cost, and in which payloads this
   * prompt and model find no listing: those are not outdated any more. A failure is no reading.
   * @param options.limit How many listings at most.
   * @param options.dryRun Write nothing at all.
   * @throws ModelError where the server fails after the client's attempts, where its settings are wrong, or
   *   where it fails on each of many listings.
   */
  read(
    choice: Choice,
    options: { limit: number; signal: AbortSignal; dryRun: boolean },
  ): AsyncGenerator<ReadOutcome>;
  /**
   * Takes a reading through the pipeline: the model is not asked for it again. The embedding of what the
   * listing will say is made before, so that a model that fails on it leaves all as it was.
   * @throws ModelError that another listing would meet too, as `isOfAll` says, in whichever stage it came up.
   */
  write(reading: Reading): Promise<WriteOutcome>;
  /** What `Choice.outdated` compares with. */
  readonly current: ReadBy;
};

/**
 * Runs kept payloads again under the current prompt and model. What is written goes through the pipeline
 * under a claim, as any other payload does, so workers may run meanwhile, and a process that is killed
 * leaves its payloads to them.
 * @param parallel How many listings are read at once.
 */
export function createReprocess(deps: {
  db: Kysely<Tables>;
  model: Pick<ModelClient, 'generateObject' | 'chatModel' | 'embed' | 'embeddingModel'>;
  jobs: Pick<InlineJobs<AgainInput>, 'run'>;
  leaseMs: number;
  parallel: number;
}): Reprocess {
  const { db, model, jobs, leaseMs, parallel } = deps;
  const worker = processName('reprocess');
  const current = { promptVersion: extractionPrompt.version, requestedModel: model.chatModel };

  const embedText = createEmbeddingBatches(model);

  async function readOne(
    chosen: Chosen,
    { signal, dryRun }: { signal: AbortSignal; dryRun: boolean },
  ): Promise<ReadOutcome> {
    const { id: listingId, raw_id: rawId, payload, is_awaited: isAwaited } = chosen;
    if (isAwaited) return { outcome: 'in_progress', listingId };
    if (payload === null) return { outcome: 'payload_gone', listingId };
    const cost = createModelCost();
    let extracted: Extracted;
    try {
      extracted = await extractListing(model, payload, { signal, observe: cost.observe });
    } catch (error) {
      if (signal.aborted || !(error instanceof ModelError)) throw error;
      return { outcome: 'failed', listingId, error };
    } finally {
      if (!dryRun && cost.usage().calls > 0) await addReadingCost(db, rawId, cost.usage());
    }
    const reason = rejectionOf(extracted);
    if (reason !== undefined) {
      if (!dryRun) await noteRefusal(db, { listingId, rawId }, current);
      return { outcome: 'not_a_listing', listingId, reason };
    }
    const { facts } = readFacts(rawId, payload, extracted);
    const changes = diffStates(chosen, listingState(payload, facts), REREAD_FIELDS);
    return { outcome: 'read', listingId, rawId, extracted, changes };
  }

  /** The embedding of what a listing will say; undefined where it has that, or its payload is not the last. */
  async function embedAhead(reading: Reading): Promise<(Embedded & { hash: string }) | undefined> {
    const { rawId, extracted } = reading;
    const listing = await findWritten(db, reading);
    if (listing === undefined) return undefined;
    const { facts } = readFacts(rawId, listing.payload, extracted);
    const text = embeddingText(listingState(listing.payload, facts));
    const hash = sha256(text);
    if (isEmbedded(listing, { hash, model: model.embeddingModel })) return undefined;
    const cost = createModelCost();
    try {
      // It ends with its own deadline: what has begun to be written is written.
      const { signal } = new AbortController();
      return { ...(await embedText({ text, signal, observe: cost.observe })), hash };
    } finally {
      if (cost.usage().calls > 0) await addReadingCost(db, rawId, cost.usage());
    }
  }

  return {
    current,
    count: (choice) => countChosen(db, choice),

    read: (choice, { limit, ...how }) =>
      walkListings({
        after: choice.after,
        limit,
        parallel,
        signal: how.signal,
        list: (after, count) => listChosen(db, { ...choice, after }, count),
        work: (chosen) => readOne(chosen, how),
        failureOf: (one) => (one.outcome === 'failed' ? one.error : undefined),
      }),

    async write(reading) {
      const { listingId, rawId, extracted } = reading;
      let embedded;
      try {
        embedded = await embedAhead(reading);
      } catch (error) {
        if (!(error instanceof ModelError) || isOfAll(error)) throw error;
        return { outcome: 'kept', error };
      }
      const job = await claimAgain(db, { listingId, rawId }, { worker, leaseMs });
      if (job === undefined) return { outcome: 'changed' };
      let reason: string | undefined;
      const onKept = (why: string) => void (reason = why);
      let failure: unknown;
      const onFailure = (error: unknown) => (failure = error);
      const { before } = job;
      const input = { before, force: true, extracted, embedded, onKept, onFailure };
      const ended = await jobs.run(job, { input });
      if (isOfAll(failure)) throw failure;
      const outcome = outcomeOf(ended, {
        isKept: reason !== undefined,
        hasFailed: failure !== undefined,
      });
      if (outcome === 'written') return { outcome };
      return { outcome, error: toError(failure ?? reason ?? `Its payload is ${ended}.`) };
    },
  };
}

function outcomeOf(
  ended: JobOutcome,
  { isKept, hasFailed }: { isKept: boolean; hasFailed: boolean },
): Exclude<WriteOutcome['outcome'], 'changed'> {
  if (ended === 'completed') {
    if (isKept) return 'kept';
    return hasFailed ? 'incomplete' : 'written';
  }
  return ended === 'failed' || ended === 'invalid' ? 'failed' : 'queued';
}
