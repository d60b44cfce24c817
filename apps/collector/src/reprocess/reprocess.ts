import { type ModelClient, ModelError } from '@oselya/model';
import type { Kysely } from 'kysely';
import type { Tables } from '../database/tables.ts';
import { MODEL_FACTS, SHARED_FACTS } from '../listings/facts.ts';
import {
  type Extracted,
  extractionPrompt,
  extractListing,
  refusalOf,
} from '../pipeline/extraction.ts';
import { type Changes, diffStates, listingState } from '../pipeline/listing-state.ts';
import type { JobInput } from '../pipeline/context.ts';
import { readFacts } from '../pipeline/read-facts.ts';
import { createModelCost } from '../model/cost.ts';
import { claimAgain, type InlineJobs, processName } from '../queue/index.ts';
import { mapInOrder } from '../async/map-in-order.ts';
import {
  addModelUsage,
  type Chosen,
  type Choice,
  countChosen,
  listChosen,
  noteRefusal,
  type ReadBy,
} from './repository.ts';

const PAGE = 64;

/** A model that fails on so many in a row fails on all, for a reason of its own. */
const MAX_FAILED_IN_A_ROW = 10;

/** What the model reads out of a payload that could change with the prompt. */
const READ_FACTS = [...SHARED_FACTS, ...MODEL_FACTS];

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

export type WriteOutcome =
  | 'written'
  /** The listing was made from another payload meanwhile, or will soon be. */
  | 'changed'
  /** The payload is back in the queue, and a worker goes on with it. */
  | 'queued'
  /** The payload has failed, and says why. */
  | 'failed';

export type Reprocess = {
  /** How many listings a choice is. */
  count(choice: Choice): Promise<number>;
  /**
   * Has the model read the kept payloads of the listings again, as many at once as the worker has slots, and
   * gives them in the order of their ids. It writes nothing but what that cost, and in which payloads this
   * prompt and model find no listing: those are not outdated any more. A failure is no reading.
   * @param options.limit How many listings at most.
   * @throws ModelError where the server fails after the client's attempts, or on each of many listings.
   */
  read(
    choice: Choice,
    options: { limit: number; signal: AbortSignal },
  ): AsyncGenerator<ReadOutcome>;
  /** Takes a reading through the pipeline: the model is not asked for it again. */
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
  model: Pick<ModelClient, 'generateObject' | 'chatModel'>;
  jobs: Pick<InlineJobs<JobInput>, 'run'>;
  leaseMs: number;
  parallel: number;
}): Reprocess {
  const { db, model, jobs, leaseMs, parallel } = deps;
  const worker = processName('reprocess');
  const current = { promptVersion: extractionPrompt.version, requestedModel: model.chatModel };

  async function readOne(chosen: Chosen, signal: AbortSignal): Promise<ReadOutcome> {
    const { id: listingId, raw_id: rawId, payload, status } = chosen;
    if (payload === null) return { outcome: 'payload_gone', listingId };
    if (status === 'pending' || status === 'processing') {
      return { outcome: 'in_progress', listingId };
    }
    const cost = createModelCost();
    let extracted: Extracted;
    try {
      extracted = await extractListing(model, payload, { signal, observe: cost.observe });
    } catch (error) {
      if (signal.aborted || !(error instanceof ModelError) || error.retryable) throw error;
      return { outcome: 'failed', listingId, error };
    } finally {
      if (cost.usage().calls > 0) await addModelUsage(db, rawId, cost.usage());
    }
    const reason = refusalOf(extracted);
    if (reason !== undefined) {
      await noteRefusal(db, { listingId, rawId }, current);
      return { outcome: 'not_a_listing', listingId, reason };
    }
    const { facts } = readFacts(rawId, payload, extracted);
    const changes = diffStates(chosen, listingState(payload, facts), READ_FACTS);
    return { outcome: 'read', listingId, rawId, extracted, changes };
  }

  return {
    current,
    count: (choice) => countChosen(db, choice),

    async *read(choice, { limit, signal }) {
      let failedInARow = 0;
      for (let [{ after }, left] = [choice, limit]; left > 0;) {
        const page = await listChosen(db, { ...choice, after }, Math.min(PAGE, left));
        for await (const outcome of mapInOrder(page, parallel, (one) => readOne(one, signal))) {
          if (outcome.outcome === 'failed') {
            failedInARow += 1;
            if (failedInARow === MAX_FAILED_IN_A_ROW) throw outcome.error;
          } else {
            failedInARow = 0;
          }
          yield outcome;
        }
        after = page.at(-1)?.id ?? Infinity;
        left = page.length < PAGE ? 0 : left - page.length;
      }
    },

    async write({ listingId, rawId, extracted }) {
      const job = await claimAgain(db, { listingId, rawId }, { worker, leaseMs });
      if (job === undefined) return 'changed';
      const outcome = await jobs.run(job, { input: { force: true, extracted } });
      if (outcome === 'completed') return 'written';
      return outcome === 'postponed' || outcome === 'lost' ? 'queued' : 'failed';
    },
  };
}
